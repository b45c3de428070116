#include "apps/checkpoints.hpp"

#include "checkpoint/commit.hpp"

namespace troupe::apps {

checkpoints::checkpoints(const config::job_config& config, std::string configuration)
    : root_(std::filesystem::absolute(config.output) / "checkpoints"),
      when_(config.checkpoint),
      configuration_(std::move(configuration)) {}

core::result<std::filesystem::path> checkpoints::prepare(const std::function<void(const std::string&)>& say) const {
  if (when_.every_steps == 0) return std::filesystem::path();
  auto& files = checkpoint::real_files();
  auto left = checkpoint::remove_leftovers(files, root_);
  if (!left) return core::fail(left.error());
  for (const auto& l : *left)
    say(root_.string() + ": a crash had left " + l.name + (l.restored ? ", which has its name again" : ": removed"));
  auto latest = checkpoint::read_latest(files, root_);
  if (!latest) return core::fail(latest.error());
  return *latest ? root_ : std::filesystem::path();
}

core::result<void> checkpoints::after_step(actors::session& s, bool at_end) {
  const uint64_t step = s.steps_done();
  if (when_.every_steps == 0 || step == saved_step_ || (!at_end && step % when_.every_steps != 0)) return {};
  if (auto ok = s.wait_for_saves(); !ok) return ok;
  actors::save_request request{.root = root_, .configuration = configuration_};
  request.keep_last = static_cast<uint32_t>(when_.keep_last);
  request.keep_every = when_.keep_every;
  if (auto ok = s.save_async(request); !ok) return ok;
  saved_step_ = step;
  return at_end ? s.wait_for_saves() : core::result<void>{};
}

}  // namespace troupe::apps
