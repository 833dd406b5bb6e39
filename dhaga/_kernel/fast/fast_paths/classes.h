/* The static data, made from three lists: the known classes with the offsets of their slots, the Python twins, and the
strings. This file also has the helpers with which all other files read and write slots and call twins. */

/* When a class changes, CPython sets its version to 0. The next lookup of an attribute gives it a new version. */
#define NO_VERSION UINT_MAX

typedef struct {
    const char *module, *name;
    PyTypeObject *type;   /* owned; NULL until bound */
    unsigned int version; /* the class's version when its compiled methods were last found in place */
    uint64_t overridden;  /* which compiled methods of its bases it overrides */
} known_class;

#define KNOWN_CLASS(variable, module, name) static known_class variable = {module, name, NULL, NO_VERSION, 0};
#define KNOWN_SLOT(class, variable, name) static Py_ssize_t variable;
#include "known_classes.h"

static known_class *const classes[] = {
#define KNOWN_CLASS(variable, module, name) &variable,
#define KNOWN_SLOT(class, variable, name)
#include "known_classes.h"
    NULL,
};

static const struct {
    const known_class *owner;
    const char *name;
    Py_ssize_t *offset;
} known_slots[] = {
#define KNOWN_CLASS(variable, module, name)
#define KNOWN_SLOT(class, variable, name) {&class, name, &variable},
#include "known_classes.h"
    {NULL, NULL, NULL},
};

static int is_unpatched(known_class *known);

/* Whether an object is an instance of exactly this class (not of a subclass), and no program has replaced a method. */
static inline int
is_itself(PyObject *object, known_class *known)
{
    return Py_IS_TYPE(object, known->type) &&
           (known->type->tp_version_tag == known->version || is_unpatched(known));
}

#define IS(object, known) is_itself((object), &(known))
/* Whether an object is an instance of the class or of a subclass, which has the same slots. */
#define IS_A(object, known) ((known).type != NULL && PyObject_TypeCheck((object), (known).type))

/* Whether an object is a dhaga, perhaps of a subclass, and no program has replaced Dhaga's methods. */
static inline int
is_dhaga(PyObject *object)
{
    return IS_A(object, Dhaga) && (Dhaga.type->tp_version_tag == Dhaga.version || is_unpatched(&Dhaga));
}

typedef enum {
#define COMPILED(constant, class, name, function) constant,
#define COMPILED_FUNCTION COMPILED
#include "compiled_functions.h"
    FUNCTIONS
} function;
_Static_assert(FUNCTIONS <= 64, "known_class.overridden has a bit for each");

static PyObject *python_twin[FUNCTIONS]; /* owned */

static PyObject *hooks; /* the dictionary of the module of hooks, owned */
static int frozen;      /* 1 at interpreter exit, when getcurrent() fails: the Python twins handle this */

static PyTypeObject *deque_type, *epoll_type;
static PyObject *deque_append, *deque_popleft, *heappush, *heappop, *plain_fileno, *empty, *bytes_io, *time_module;

#define INTERNED(name, text) static PyObject *str_##name;
#include "interned_strings.h"

static const struct {
    PyObject **string;
    const char *text;
} strings[] = {
#define INTERNED(name, text) {&str_##name, text},
#include "interned_strings.h"
    {NULL, NULL},
};

/* An attribute of a module, or of a class in it. */
static PyObject *
imported(const char *module, const char *name, const char *attribute)
{
    PyObject *from = PyImport_ImportModule(module), *found = NULL, *outer;

    if (from != NULL) {
        found = PyObject_GetAttrString(from, name);
        Py_DECREF(from);
    }
    if (found != NULL && attribute != NULL) {
        outer = found;
        found = PyObject_GetAttrString(outer, attribute);
        Py_DECREF(outer);
    }
    return found;
}

/* Return an attribute of a class by its name, as a borrowed reference. Unlike getattr(), this lookup runs no Python
code. */
static PyObject *
in_class(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t i;

    for (i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *dict = ((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
        PyObject *found = dict == NULL ? NULL : PyDict_GetItemWithError(dict, name);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

/* The value of a key, owned; NULL if there is none, or with an error. */
static inline PyObject *
value_of(PyObject *dict, PyObject *key)
{
#ifdef Py_GIL_DISABLED
    PyObject *found;

    (void)PyDict_GetItemRef(dict, key, &found);
    return found;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

/* A hook by its name, owned; NULL if none is set, or on an error. */
static inline PyObject *
hook_of(PyObject *name)
{
    PyObject *found = value_of(hooks, name);

    if (found == Py_None) {
        Py_CLEAR(found);
    }
    return found;
}

/* Read the number in a slot that no other thread changes meanwhile. Returns: whether it is an int that a long holds. */
static inline int
read_number(PyObject *object, Py_ssize_t offset, long *number)
{
    PyObject *found = SLOT(object, offset);
    int too_large = 1;

    *number = found != NULL && PyLong_CheckExact(found) ? PyLong_AsLongAndOverflow(found, &too_large) : 0;
    return !too_large;
}

/* Add `count` to the number in a slot. The number is not negative. Returns: -1 on an error. */
static int
add(PyObject *object, Py_ssize_t offset, long count)
{
    PyObject *sum;
    long number;

    if (!read_number(object, offset, &number) || (count > 0 && number > LONG_MAX - count)) {
        PyErr_SetString(PyExc_OverflowError, "a count that is no int, or too large");
        return -1;
    }
    sum = PyLong_FromLong(number + count);
    if (sum == NULL) {
        return -1;
    }
    put(object, offset, sum);
    return 0;
}

/* Call a Python twin with the arguments that the compiled function got. CALLS. */
static PyObject *
call_twin(function which, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *small[8], **all = small, *result;
    Py_ssize_t given = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names)), i;

    if (given > 7) {
        all = PyMem_New(PyObject *, (size_t)given + 1);
        if (all == NULL) {
            return PyErr_NoMemory();
        }
    }
    all[0] = self;
    for (i = 0; i < given; i++) {
        all[i + 1] = args[i];
    }
    result = PyObject_Vectorcall(python_twin[which], all, (size_t)count + 1, names);
    if (all != small) {
        PyMem_Free(all);
    }
    return result;
}
