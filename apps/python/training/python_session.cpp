#include "apps/python/training/python_session.hpp"

namespace troupe::apps {

namespace nb = nanobind;

void refuse_call(const std::string& why) { throw python_error({core::error_kind::bad_input, why}); }

call_scope::call_scope(python_session& s, const char* name) : session_(s) {
  if (s.is_busy)
    refuse_call(std::string(name) +
                ": wanted one call of a session at a time, but another one runs; only stop() may be called meanwhile");
  if (!s.work.is_open()) refuse_call(std::string(name) + ": the session is closed");
  s.is_busy = true;
}

call_scope::~call_scope() {
  session_.is_busy = false;
  if (session_.work.is_open()) session_.steps_done = session_.work.session().steps_done();
}

void tell(training_session& s, int of_the_caller) {
  const auto lines = s.take_lines(), warnings = s.take_warnings();
  if (!lines.empty()) {
    const nb::object info = nb::module_::import_("logging").attr("getLogger")("troupe").attr("info");
    for (const auto& line : lines) info("%s", text_of(line));
  }
  for (const auto& line : warnings)
    if (PyErr_WarnFormat(PyExc_UserWarning, of_the_caller, "%U", text_of(line).ptr()) != 0) nb::raise_python_error();
}

nb::object number_or_none(const std::optional<double>& x) { return x ? nb::cast(*x) : nb::object(nb::none()); }

nb::tuple shape_tuple(const std::vector<int64_t>& shape) {
  nb::list out;
  for (const int64_t n : shape) out.append(n);
  return nb::tuple(out);
}

}  // namespace troupe::apps
