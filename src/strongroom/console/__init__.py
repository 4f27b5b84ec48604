"""The console: pages for people, in `static/`, and a store worth looking at. `strongroom.server` serves them."""
