"""The report of a run: from what its host tells to one page, in HTML and in Markdown."""
