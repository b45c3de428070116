#include "apps/run/degree_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/clock.hpp"
#include "job/blueprint.hpp"
#include "job/feasible_degree.hpp"

namespace troupe::apps {
namespace {

/// The file with so many data ranks, and a batch as large as before.
core::result<common_arguments> with_ranks(common_arguments a, const config::job_config& c, uint32_t data) {
  const auto cut = job::batch_at_degree(c, data);
  if (!cut) return core::fail(cut.error());
  a.set.push_back(fmt::format("parallel.data={}", data));
  if (c.elasticity.enabled) return a;  // it gives the same batch, and takes none beside it
  a.set.push_back(fmt::format("train_batch_size={}", c.train_batch_size));
  a.set.push_back(fmt::format("train_micro_batch_size_per_gpu={}", cut->rows));
  a.set.push_back(fmt::format("gradient_accumulation_steps={}", cut->accumulation));
  return a;
}

}  // namespace

std::optional<degree_schedule> degree_schedule::read(const std::string& text, const common_arguments& a,
                                                     std::optional<uint64_t> steps, const config::loaded& loaded) {
  degree_schedule out;
  if (text.empty()) return out;
  const auto refused = [](const core::error& e) {
    std::fprintf(stderr, "troupe: --degrees: %s\n", e.text.c_str());
    return std::nullopt;
  };
  auto changes = job::read_degree_changes(text);
  if (!changes) return refused(changes.error());
  out.changes_ = std::move(*changes);
  for (size_t i = 0; i < out.changes_.size(); ++i) {
    const job::degree_change& x = out.changes_[i];
    const auto same = std::ranges::find(out.changes_, x.data, &job::degree_change::data);
    if (const auto at = static_cast<size_t>(same - out.changes_.begin()); at < i) {
      out.loaded_.push_back(out.loaded_[at]);
      continue;
    }
    const auto arguments = with_ranks(a, loaded.config, x.data);
    if (!arguments) return refused(arguments.error());
    auto job = load_configuration(*arguments, steps, intent::run);
    if (!job) return std::nullopt;
    out.loaded_.push_back(std::make_shared<const config::loaded>(std::move(*job)));
    if (i == 0) continue;  // its plan is proved as the session is opened
    // The plan, too: a run does not end at step 20 because of what could be known before the first.
    const auto planned =
        job::make_blueprint(std::shared_ptr<const config::job_config>(out.loaded_.back(), &out.loaded_.back()->config));
    if (!planned) return refused(planned.error().in(fmt::format("{}@{}", x.data, x.step)));
  }
  return out;
}

core::result<std::string> degree_schedule::change(actors::session& s) {
  size_t due = 0;  // the run may be back before a change
  while (due + 1 < changes_.size() && changes_[due + 1].step <= s.steps_done()) ++due;
  if (due == now_) return std::string();
  const int64_t before = core::now_ns();
  if (auto ok = s.change_degrees({loaded_[due], &loaded_[due]->config}); !ok) return core::fail(ok.error());
  const auto was = changes_[std::exchange(now_, due)].data;
  return fmt::format("{} -> {} ranks before step {}: {:.2f} s", was, changes_[due].data, s.steps_done() + 1,
                     double(core::now_ns() - before) / 1e9);
}

}  // namespace troupe::apps
