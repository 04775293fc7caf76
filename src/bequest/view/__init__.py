"""A run one can watch: from what a run left behind to one page that needs nothing else.

``reading`` turns a file into documents, ``scenery`` makes of these what the page shows, ``page``
puts it together with the style and the scripts in ``assets``. The page knows nothing of Python,
and nothing here knows how it draws.
"""
