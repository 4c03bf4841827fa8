"""What sources say, and what is there at run time: names, calls, signatures, constants."""
