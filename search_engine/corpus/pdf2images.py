"""Write the pages of PDF files as pictures: `python search_engine/corpus/pdf2images.py`."""

from vrag.compat.scripts import convert_pdfs

if __name__ == "__main__":
    convert_pdfs()
