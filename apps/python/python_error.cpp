#include "apps/python/python_error.hpp"

namespace troupe::apps {
namespace {

namespace nb = nanobind;

/// Returns the name of the error kind, as in core::error_kind.
const char* name_of(core::error_kind kind) {
  using enum core::error_kind;
  switch (kind) {
    case bad_input:
      return "bad_input";
    case io:
      return "io";
    case no_space:
      return "no_space";
    case limit:
      return "limit";
    case mismatch:
      return "mismatch";
    case stalled:
      return "stalled";
    case peer_lost:
      return "peer_lost";
    case numeric:
      return "numeric";
    case stopped:
      return "stopped";
    case bug:
      return "bug";
  }
  return "bug";
}

}  // namespace

nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

void add_error(nb::module_& m) {
  const nb::object type = nb::steal(PyErr_NewExceptionWithDoc(
      "troupe.Error", "What went wrong, in one sentence: wanted, got, where. `kind` says who can mend it.", nullptr,
      nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  m.attr("Error") = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* error_type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const python_error& e) {
          const nb::handle type(static_cast<PyObject*>(error_type));
          nb::object raised = type(text_of(e.why().text));
          raised.attr("kind") = name_of(e.why().kind);
          PyErr_SetObject(type.ptr(), raised.ptr());
        }
      },
      type.ptr());  // a borrowed pointer: the module holds the reference
}

}  // namespace troupe::apps
