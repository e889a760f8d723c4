"""A directory on the sandbox's `sys.path`; a package only so that an installation includes it."""
