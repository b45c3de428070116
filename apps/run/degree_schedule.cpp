#include "apps/run/degree_schedule.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "apps/base/error_line.hpp"
#include "apps/run/asked_degrees.hpp"
#include "core/clock.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {
namespace {

/// Returns the configuration of a later degree. Its micro-batch and accumulation follow from the batch of `file` alone,
/// and not from the degree of `first`. A job of several processes keeps its processes, some of which then have no
/// ranks. Returns nothing if the file is refused with that degree; the error has been printed.
std::optional<config::loaded> at_later(const config::loaded& first, const config::job_config& file,
                                       const common_arguments& a, std::optional<uint64_t> steps, uint32_t data) {
  if (!first.config.cluster.is_on()) return load_configuration(at_data_ranks(a, file, data), steps, intent::run);
  config::loaded out = first;
  out.config = job::at_degree(file, data);
  return out;
}

}  // namespace

std::optional<degree_schedule> degree_schedule::read(const std::string& text, const common_arguments& a,
                                                     std::optional<uint64_t> steps, const config::loaded& loaded,
                                                     bool is_said) {
  degree_schedule out;
  if (text.empty()) return out;
  const auto refused = [](const core::error& e) {
    print_error_line("troupe: --degrees: " + e.text);
    return std::nullopt;
  };
  auto changes = asked_degrees(text, loaded.config);
  if (!changes) return refused(changes.error());
  out.changes_ = std::move(*changes);
  if (is_said) warn_of_unreached(out.changes_, loaded.config.steps);
  out.file_ = std::make_shared<const config::job_config>(loaded.config);
  for (size_t i = 0; i < out.changes_.size(); ++i) {
    const job::degree_change& x = out.changes_[i];
    const auto same = std::ranges::find(out.changes_, x.data, &job::degree_change::data);
    if (const auto at = static_cast<size_t>(same - out.changes_.begin()); at < i) {
      out.loaded_.push_back(out.loaded_[at]);
      continue;
    }
    auto job = i > 0 ? at_later(out.first(), loaded.config, a, steps, x.data)
                     : load_configuration(at_data_ranks(a, loaded.config, x.data), steps, intent::run,
                                          config::reading::job, {}, is_said);
    if (!job) return std::nullopt;
    out.loaded_.push_back(std::make_shared<const config::loaded>(std::move(*job)));
    if (i == 0) continue;  // the plan of the first degree is proved when the session opens
    // Proves the plan of a later degree now, because a refusal at the change would end the run.
    const auto planned =
        job::make_blueprint(std::shared_ptr<const config::job_config>(out.loaded_.back(), &out.loaded_.back()->config));
    if (!planned) return refused(planned.error().in(fmt::format("{}@{}", x.data, x.step)));
  }
  return out;
}

core::result<std::string> degree_schedule::change(actors::session& s) {
  size_t due = 0;  // searches from the first degree, because the run may have returned to a step before the last change
  while (due + 1 < changes_.size() && changes_[due + 1].step <= s.steps_done()) ++due;
  if (due == now_) return std::string();
  const int64_t before = core::now_ns();
  TROUPE_TRY(s.change_degrees({loaded_[due], &loaded_[due]->config}));
  const auto was = changes_[std::exchange(now_, due)].data;
  return fmt::format("{} -> {} ranks before step {}: {:.2f} s", was, changes_[due].data, s.steps_done() + 1,
                     double(core::now_ns() - before) / 1e9);
}

}  // namespace troupe::apps
