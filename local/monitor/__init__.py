"""Many hosts on one screen: who asks them, what their answers mean, how it is shown. The design: docs/monitor.md."""
