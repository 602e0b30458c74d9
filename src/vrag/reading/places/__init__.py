"""The places of given words on pages: phrases, numbers and names, and the parts of longer answers."""
