"""scikit-learn's own tests, as installed, on our classes in place of theirs; see README.md."""
