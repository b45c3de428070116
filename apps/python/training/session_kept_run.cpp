// Owns the functions of a Python session that keeps the folder of a run, by which `troupe.train` saves between steps
// and ends the run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <optional>
#include <string>

#include "apps/python/training/python_session.hpp"

namespace troupe::apps {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

nb::object path_or_none(const std::filesystem::path& p) { return p.empty() ? nb::object(nb::none()) : nb::cast(p); }

/// Refuses a session without a folder.
void require_folder(const python_session& s) {
  if (s.work.is_open() && !s.work.keeps_folder()) refuse_call("train: wanted a session that keeps a run's folder");
}

void between_steps(python_session& s, bool is_asked) {
  require_folder(s);
  call(s, "train", [&](training_session& t, const auto&) { return t.kept().between_steps(t.session(), is_asked); });
}

nb::tuple end(python_session& s) {
  require_folder(s);
  const auto r = call(s, "train", [](training_session& t, const auto& goes_on) {
    return t.kept().end(t.session(), [&] { return goes_on(0, 0); });
  });
  nb::dict losses;
  for (const auto& [set, loss] : r.validation_losses) losses[text_of(set)] = loss;
  return nb::make_tuple(r.steps, r.trained, r.skipped, number_or_none(r.loss), losses, r.seconds,
                        path_or_none(r.folder), path_or_none(r.checkpoint), path_or_none(r.exported),
                        path_or_none(r.report), text_of(r.sample), text_of(r.no_sample));
}

void leave(python_session& s, const std::string& kind, const std::string& why) {
  require_folder(s);
  std::optional<core::error> failure;
  if (const auto known = kind_named(kind)) failure = core::error{*known, why};
  call(s, "train", [&](training_session& t, const auto&) -> core::result<void> {
    t.kept().leave(t.session(), failure);
    return {};
  });
}

}  // namespace

void add_kept_run(session_class& c) {
  c.def("between_steps", between_steps, "is_asked"_a).def("end", end).def("leave", leave, "kind"_a, "why"_a);
}

}  // namespace troupe::apps
