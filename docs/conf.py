"""Sphinx configuration; ``make docs`` builds without network and without warnings."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

# Said by other libraries about each other: nothing that a reader of these pages can do anything about.
for message in (
    "Montage name .* is deprecated",  # MNE, about Braindecode, when it is imported
    "Creating a dataset without passing data",  # h5py, about MOABB
):
    warnings.filterwarnings("ignore", message=message)

from braindecode_censor import __version__  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "braindecode-censor"
author = "The braindecode-censor developers"
copyright = "2026, the braindecode-censor developers"
release = version = __version__

extensions = [
    "myst_parser",
    "native_math",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "gallery/**/*.md5",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "results/**.md",  # parts of pages
]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Written when their measurements exist; listed where they are.
OPTIONAL_PAGES = ("fleet", "real_recordings", "evidence", "evidence_tables")

# Links inside must resolve; names of other libraries cannot without network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!braindecode_censor(\.|$)).*")]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = True  # else submodules are not listed; automodule heeds __all__ anyway
autodoc_member_order = "bysource"
# scikit-learn adds these, with links into its own documentation
autodoc_default_options = {"exclude-members": "set_fit_request, set_partial_fit_request, set_score_request"}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "braindecode-censor"
html_static_path = ["_static"]
html_css_files = ["math.css", "layout.css"]
# All pages in the sidebar of every page: the theme's own shows only the section that a page is in.
html_sidebars = {"**": ["contents.html"]}
html_math_renderer = "native"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "navbar_center": ["doors.html"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "copyfile_regex": r".*\.png",
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from servers
    "download_all_examples": False,
    "plot_gallery": "True",
}


def resolve_short_name(app, env, node, contnode):
    """Find ``braindecode_censor.Censor`` where it is documented, ``braindecode_censor.training.callback.Censor``."""
    if (
        node.get("reftarget") == "load-pretrained-models"
    ):  # a label of Braindecode's, in a docstring we inherit
        return contnode
    module, _, name = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py" or module.split(".")[0] != "braindecode_censor":
        return None
    try:
        thing = getattr(import_module(module), name, None)
    except ModuleNotFoundError:  # a method of something that is not there: let Sphinx warn about the name
        return None
    home = f"{getattr(thing, '__module__', None)}.{name}"
    domain, kind = env.domains.python_domain, node["reftype"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, kind, home, node, contnode)


def drop_absent_pages(app, docname, source):
    """Take pages that are not there out of the lists of contents."""
    for page in OPTIONAL_PAGES:
        if not (HERE / f"{page}.md").exists():
            source[0] = source[0].replace(f"```{{toctree}}\n{page}\n```\n", "")


def setup(app):
    """Register with Sphinx."""
    app.connect("missing-reference", resolve_short_name)
    app.connect("source-read", drop_absent_pages)
