"""The console in a real Chromium, over a real server and real stores."""
