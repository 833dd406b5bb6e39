/* The calling dhaga's ident, and its attributes of a `threading.local`. Twins: get_ident of dhaga/threading.py, and
local.__getattribute__. */

static PyObject *idents; /* the dictionary of the module idents.py, owned */

/* The ident of the calling dhaga, borrowed; NULL if the caller is not a dhaga. */
static inline PyObject *
ident_of_caller(void)
{
    PyObject *me = frozen ? NULL : current();

    return me != NULL && IS_A(me, Dhaga) ? SLOT(me, dhaga_ident) : NULL;
}

/* Whether threading shows a dhaga's number as its ident. Otherwise it shows the dhaga's address: see idents.py.
Returns: -1 on an error. */
static int
is_shown(PyObject *ident)
{
    PyObject *module, *first;
    int shown;

    if (idents == NULL) {
        module = PyImport_ImportModule("dhaga._kernel.run.idents");
        if (module == NULL) {
            return -1;
        }
        idents = Py_NewRef(PyModule_GetDict(module));
        Py_DECREF(module);
    }
    first = value_of(idents, str_first_by_address);
    shown = first == NULL ? 0 : PyObject_RichCompareBool(ident, first, Py_LT);
    Py_XDECREF(first);
    return shown;
}

static PyObject *
get_ident(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    PyObject *ident = ident_of_caller();
    int shown = ident != NULL && PyLong_CheckExact(ident) ? is_shown(ident) : 0;

    if (shown < 0) {
        return NULL;
    }
    return shown ? Py_NewRef(ident) : PyObject_CallNoArgs(python_twin[GET_IDENT]);
}

/* The caller's attribute of a local, owned; NULL if the caller has no such attribute yet, or on an error. */
static PyObject *
attribute_of_caller(PyObject *local, PyObject *name)
{
    PyObject *ident = ident_of_caller(), *namespaces = SLOT(local, local_namespaces), *attributes, *found = NULL;

    if (ident != NULL && namespaces != NULL && PyDict_Check(namespaces)) {
        attributes = value_of(namespaces, ident);
        if (attributes != NULL && PyDict_CheckExact(attributes)) {
            found = value_of(attributes, name);
        }
        Py_XDECREF(attributes);
    }
    return found;
}

static PyObject *
local___getattribute__(PyObject *self, PyObject *name)
{
    PyObject *found = NULL;

    if (PyUnicode_CheckExact(name) && IS_A(self, Local) && in_class(Py_TYPE(self), name) == NULL) {
        found = attribute_of_caller(self, name);
    }
    return found != NULL || PyErr_Occurred() ? found : call_twin(LOCAL_GETATTRIBUTE, self, &name, 1, NULL);
}
