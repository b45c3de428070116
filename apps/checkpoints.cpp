#include "apps/checkpoints.hpp"

#include <utility>

#include "checkpoint/retention.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

uint64_t bytes_of(const fs::path& folder) {
  uint64_t n = 0;
  std::error_code e;
  for (fs::directory_iterator at(folder, e), end; !e && at != end; at.increment(e)) {
    const auto size = at->file_size(e);
    n += e ? 0 : size;
  }
  return n;
}

}  // namespace

checkpoints::checkpoints(const config::job_config& config, std::string configuration, start_wishes wishes,
                         listeners heard)
    : start_(fs::absolute(config.output).lexically_normal() / "checkpoints", config.checkpoint.load, wishes),
      when_(config.checkpoint),
      configuration_(std::move(configuration)),
      heard_(std::move(heard)) {}

core::result<run_start> checkpoints::choose_start() { return start_.choose(heard_.on_warning); }

core::result<void> checkpoints::begin(const run_start& start, const actors::session& s) {
  last_begin_ns_ = core::now_ns();
  if (start.own) saved_step_ = s.steps_done();
  if (when_.is_on())
    if (auto ok = start_.claim(heard_.on_warning); !ok) return ok;
  return start_.begin(start, s.steps_done(), heard_.on_warning);
}

bool checkpoints::is_due(uint64_t step, moment why) const {
  switch (why) {
    case moment::asked:
    case moment::rescued:
      return true;
    case moment::end:
      return when_.is_on() && tried_step_ != step;
    case moment::step:
      break;
  }
  if (when_.every_steps > 0 && step % when_.every_steps == 0) return true;
  return when_.every_minutes > 0 && double(core::now_ns() - last_begin_ns_) >= when_.every_minutes * 60e9;
}

core::result<void> checkpoints::after_step(actors::session& s, moment why) {
  if (saved_step_ == s.steps_done() || !is_due(s.steps_done(), why)) return {};
  return save(s);
}

core::result<void> checkpoints::save(actors::session& s) {
  const uint64_t step = s.steps_done();
  tried_step_ = step;
  last_begin_ns_ = core::now_ns();
  if (auto ok = start_.claim(heard_.on_warning); !ok) return failed(step, ok.error());
  auto saved = s.save({.root = start_.root(), .configuration = configuration_});
  if (!saved) return failed(step, saved.error());
  const double seconds = double(core::now_ns() - last_begin_ns_) / 1e9;
  saved_step_ = step;
  written({step, *saved, bytes_of(*saved), seconds, seconds});
  return {};
}

// Once for each: the next one that is due tries again.
core::result<void> checkpoints::failed(uint64_t step, const core::error& e) {
  ++counts_.failed;
  const std::string what = "checkpoint of step " + std::to_string(step);
  if (when_.on_error == config::checkpoint_section::error_policy::stop) return core::fail(e.in(what));
  heard_.on_warning(what + ": " + e.text + "; the earlier ones stay as they are, the run goes on");
  return {};
}

void checkpoints::written(const checkpoint_event& e) {
  ++counts_.written;
  counts_.bytes += e.bytes;
  counts_.seconds += e.seconds;
  counts_.waited_seconds += e.waited_seconds;
  if (heard_.on_written) heard_.on_written(e);
  const auto kept = checkpoint::apply_retention(checkpoint::real_files(), start_.root(),
                                                {static_cast<uint32_t>(when_.keep_last), when_.keep_every});
  if (!kept) heard_.on_warning("removing checkpoints that need not stay: " + kept.error().text);
}

}  // namespace troupe::apps
