#include "apps/checkpoint/checkpoint_arguments.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "core/text.hpp"

namespace troupe::apps {

std::function<void(const std::string&)> say_for(const source_arguments& a) {
  return a.note ? a.note : [](const std::string& line) { print_error_line("troupe: " + line); };
}

void note(const source_arguments& a, const std::string& line) {
  if (a.note) return a.note(line);
  if (a.verbosity != verbosity::quiet) print_error_line("troupe: " + line);
}

void warn_of_left_out(const source_arguments& a, const formats::tensor_source& s) {
  for (const auto& line : s.remarks)
    if (line.starts_with(formats::left_out_mark) || line.starts_with(formats::changed_mark)) warn_about(a, s, line);
}

void warn_about(const source_arguments& a, const formats::tensor_source& s, const std::string& line) {
  say_for(a)(fmt::format("warning: '{}': {}", formats::shown_place(s), line));
}

void warn_of_lost_samples(const source_arguments& a, const formats::tensor_source& s) {
  if (s.run.left_out.empty()) return;
  std::string steps;
  for (const auto& x : s.run.left_out) steps += fmt::format("{}{}-{}", steps.empty() ? "" : ", ", x.first, x.last);
  warn_about(a, s,
             fmt::format("its run left out the samples of steps {}, which the new checkpoint cannot record: a run "
                         "that resumes from it trains on them",
                         core::shown(steps)));
}

int ended_with(const core::error& e) {
  const int code = failed(e);
  return e.kind == error_kind::mismatch || e.kind == error_kind::limit ? 2 : code;
}

int ended(const core::result<void>& r) { return r ? 0 : ended_with(r.error()); }

core::result<core::dtype> dtype_from(const std::string& option, const std::string& text) {
  if (const auto type = core::float_dtype_from(text); type && *type != core::dtype::f64) return *type;
  return fail(error_kind::bad_input, fmt::format("{}: wanted fp32, bf16 or fp16, got '{}'", option, text));
}

}  // namespace troupe::apps
