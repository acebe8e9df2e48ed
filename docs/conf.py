"""Sphinx configuration; ``make docs`` builds without network and without warnings."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

# Warnings of other libraries about each other.
for message in (
    "Montage name .* is deprecated",  # MNE about Braindecode
    "Creating a dataset without passing data",  # h5py about MOABB
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
    "results/**.md",  # raw tables
]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Links to our own names must resolve; those of other libraries need a network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!braindecode_censor(\.|$)).*")]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = True  # otherwise submodules are not listed
autodoc_member_order = "bysource"
# scikit-learn adds these, with links to its own documentation.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_partial_fit_request, set_predict_request, set_score_request"
}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "braindecode-censor"
html_static_path = ["_static"]
html_css_files = ["math.css", "layout.css"]
# The theme's own sidebar shows only the section of a page.
html_sidebars = {"**": ["contents.html"]}
html_math_renderer = "native"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    # Only examples of seconds are run for their figures; tests/docs/test_examples.py runs all of them.
    "filename_pattern": r"/plot_(custom_measure|own_epochs)",
    "abort_on_example_error": True,
    "copyfile_regex": r".*\.png",
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "write_computation_times": False,  # Its page loads scripts from servers.
    "download_all_examples": False,
    "plot_gallery": "True",
}


def resolve_short_name(app, env, node, contnode):
    """Resolve ``braindecode_censor.Censor`` to its full name, ``braindecode_censor.training.callback.Censor``."""
    if node.get("reftarget") == "load-pretrained-models":  # Braindecode's label, in an inherited docstring
        return contnode
    module, _, name = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py" or module.split(".")[0] != "braindecode_censor":
        return None
    try:
        obj = getattr(import_module(module), name, None)
    except ModuleNotFoundError:  # Sphinx warns about the name.
        return None
    full_name = f"{getattr(obj, '__module__', None)}.{name}"
    domain, role = env.domains.python_domain, node["reftype"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, role, full_name, node, contnode)


def setup(app):
    """Register with Sphinx."""
    app.connect("missing-reference", resolve_short_name)
