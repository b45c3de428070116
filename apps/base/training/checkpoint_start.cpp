#include "apps/base/training/checkpoint_start.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/base/load_keys.hpp"
#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/set_aside.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct checkpoint_name {
  std::string name;
  uint64_t step = 0;
};

/// Returns Troupe's checkpoints in `root` with their steps. The step of a checkpoint with a tag is read from its
/// manifest; such a checkpoint is omitted if its manifest cannot be read.
core::result<std::vector<checkpoint_name>> checkpoints_in(const fs::path& root) {
  std::vector<checkpoint_name> out;
  std::error_code e;
  if (!fs::is_directory(root, e)) return out;
  TROUPE_ASSIGN(const auto entries, storage::real_files().list(root));
  for (const auto& x : entries) {
    if (x.kind != storage::entry_kind::folder) continue;
    if (const auto step = checkpoint::step_of(x.name)) {
      out.push_back({x.name, *step});
    } else if (checkpoint::is_tag(x.name)) {
      const auto known = checkpoint::read_manifest(storage::real_files(), root / x.name);
      if (known) out.push_back({x.name, known->content.run.step});
    }
  }
  return out;
}

using load_section = config::checkpoint_load_section;

bool lies_in(const fs::path& path, const fs::path& root) {
  std::error_code e;
  const fs::path inner = fs::weakly_canonical(path, e), outer = fs::weakly_canonical(root, e);
  return inner == outer || inner.parent_path() == outer;
}

core::result<fs::path> make_place_aside(const fs::path& root) {
  for (uint32_t n = 1; n <= max_set_aside; ++n) {
    const fs::path place = checkpoint::place_aside(root, n);
    std::error_code e;
    if (fs::create_directory(place, e)) return place;
    if (e) return core::fail(core::path_error("make the folder", place, e.value()));
  }
  return core::fail(core::error_kind::limit, fmt::format("{}.1 to .{} hold earlier checkpoints: remove some of them",
                                                         root.string(), max_set_aside));
}

}  // namespace

actors::load_options load_options_of(const config::checkpoint_load_section& load) {
  actors::load_options out;
  if (!load.tag.empty()) out.tag = load.tag;
  out.load_module_strict = load.strict;
  out.load_optimizer_states = load.optimizer_states;
  out.load_lr_scheduler_states = load.lr_scheduler_states;
  out.load_module_only = load.module_only;
  out.fallback_to_previous = load.fallback_to_previous;
  out.changed_batch = load.changed_batch;
  out.changed_seed = load.changed_seed;
  out.changed_data = load.changed_data;
  return out;
}

checkpoint_start::checkpoint_start(fs::path root, config::checkpoint_load_section load, start_wishes wishes)
    : root_(std::move(root)), load_(std::move(load)), wishes_(std::move(wishes)) {}

bool checkpoint_start::is_by_hand(const char* key) const {
  return std::ranges::find(wishes_.keys_by_hand, key) != wishes_.keys_by_hand.end();
}

core::result<run_start> checkpoint_start::at_step_0(run_start start) const {
  constexpr std::array<std::pair<const char*, const char*>, 3> for_loads{
      {{"module_only", "--load-module-only"},
       {"optimizer_states", "--no-load-optimizer-states"},
       {"lr_scheduler_states", "--no-load-lr-scheduler-states"}}};
  if (!start.load.path.empty()) {
    if (start.load.tag.empty() || wishes_.tag_by.empty()) return start;
    if (const auto there = checkpoint::look_into(start.load.path, start.load.tag); !there)
      return core::fail(there.error().in(wishes_.tag_by));
    return start;
  }
  for (const auto& [key, flag] : for_loads)
    if (is_by_hand(key))
      return core::refused(
          fmt::format("checkpoint.load.{} ({}) would do nothing here: the run has no checkpoints of its own "
                      "in '{}' and loads none; give one by --resume PATH",
                      key, flag, root_.string()));
  return start;
}

core::result<load_section> checkpoint_start::own_load(const say_function& say) const {
  const auto refused = [&](const char* key, const char* flag) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("checkpoint.load.{}: the run has checkpoints of its own in '{}' and resumes from "
                                  "them: --resume PATH {} loads another one, --fresh begins with checkpoint.load.path",
                                  key, root_.string(), flag));
  };
  if (is_by_hand("module_only") && load_.module_only) return refused("module_only", "--load-module-only");
  if (is_by_hand("tag") && !load_.tag.empty()) return refused("tag", "--tag TAG");
  load_section out;
  const load_section none;
  std::vector<std::string> idle;
  if (is_by_hand("path")) idle.emplace_back("path");
  if (!load_.tag.empty()) idle.emplace_back("tag");
  if (load_.module_only) idle.emplace_back("module_only");
  for (const auto& k : load_keys) {
    if (load_.*k.field == none.*k.field) continue;
    if (k.is_for_all || load_.path.empty() || is_by_hand(k.name))
      out.*k.field = load_.*k.field;
    else
      idle.emplace_back(k.name);
  }
  if (!idle.empty())
    say(
        fmt::format("the run resumes from its own checkpoints in '{}', so the keys of checkpoint.load for "
                    "'{}' have no effect ({}); --resume {} loads that one",
                    root_.string(), load_.path.string(), fmt::join(idle, ", "), load_.path.string()));
  return out;
}

void checkpoint_start::wait_for_folder(const say_function& say) const {
  const int64_t until_ns = core::now_ns() + former_holder_ns_max;
  for (bool is_said = false; checkpoint::folder_lock::is_held(root_) && core::now_ns() < until_ns; is_said = true) {
    if (!is_said) say(fmt::format("{}: a previous process still holds this folder; waits for it", root_.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

core::result<void> checkpoint_start::claim_output(const say_function& say) {
  if (output_lock_ && output_lock_->is_in_place()) return {};
  output_lock_.reset();
  TROUPE_ASSIGN(auto lock, checkpoint::folder_lock::take(root_.parent_path(), "runs"));
  if (!lock.objection().empty()) say(lock.objection());
  output_lock_.emplace(std::move(lock));
  return {};
}

core::result<void> checkpoint_start::claim(const say_function& say) {
  if (lock_ && lock_->is_in_place()) return {};
  lock_.reset();
  TROUPE_ASSIGN(auto claimed, checkpoint::claim_folder(root_));
  lock_.emplace(std::move(claimed.lock));
  if (!storage::syncs_folders(root_))
    say(fmt::format(
        "'{}': the file system does not sync folders, so a power failure may lose the newest checkpoints; a crash of "
        "the run does not",
        root_.string()));
  for (const auto& l : claimed.left)
    say(l.kept_for.empty()
            ? fmt::format("{}: a crash had left {}{}", root_.string(), l.name,
                          l.restored ? ", which was renamed back" : ": removed")
            : fmt::format("{}: {} is left over and is not removed: '{}' is not a file; move it elsewhere",
                          root_.string(), l.name, l.kept_for));
  return {};
}

core::result<run_start> checkpoint_start::choose(const say_function& say, bool again) {
  std::error_code e;
  if (again && !lock_) wait_for_folder(say);
  if (fs::is_directory(root_.parent_path(), e))
    if (auto ok = claim_output(say); !ok && !again) return core::fail(ok.error());
  if (fs::exists(root_, e)) TROUPE_TRY(claim(say));
  run_start out{.load = load_, .own = false, .map = wishes_.map};
  if (!again && (wishes_.named_by_hand || wishes_.fresh)) {
    // If `checkpoint.load.path` is a run's output folder, uses the folder of checkpoints in it.
    if (!out.load.path.empty()) out.load.path = checkpoint::checkpoints_below(out.load.path);
    if (wishes_.fresh && !out.load.path.empty() && lies_in(out.load.path, root_))
      return core::fail(core::error_kind::bad_input,
                        fmt::format("--fresh sets the run's own checkpoints aside, and checkpoint.load.path (--resume) "
                                    "is one of them, '{}': leave out one of the two",
                                    out.load.path.string()));
    out.own = !out.load.path.empty() && lies_in(out.load.path, root_) && !out.load.module_only;
    return at_step_0(std::move(out));
  }
  if (!fs::is_directory(root_, e))
    // If a file has the name `root_`, claim() reports that when it creates the folder.
    return again ? out : at_step_0(std::move(out));
  TROUPE_ASSIGN(const auto there, checkpoints_in(root_));
  const auto latest = checkpoint::read_latest(storage::real_files(), root_);
  if (!latest && !load_.fallback_to_previous) {
    const auto opened = checkpoint::open_source(root_);  // the error names the checkpoints that may be used instead
    return core::fail(opened ? latest.error() : opened.error());
  }
  // If no checkpoint is numbered by its step and there is no `latest`, all checkpoints were saved under a tag without
  // an update of `latest`. Such checkpoints are loaded only if the user names one, so the run begins at step 0.
  const bool any_step = std::any_of(there.begin(), there.end(),
                                    [](const checkpoint_name& c) { return checkpoint::step_of(c.name).has_value(); });
  if (!any_step && latest && !*latest) return again ? out : at_step_0(std::move(out));
  out.own = true;
  out.map.clear();  // --map applies to the tensors of another run's checkpoint only
  const std::string newest = latest && *latest ? (*latest)->folder : std::string();
  if (again && (own_begin_.empty() || newest != own_begin_)) {
    out.load = {};
    for (const auto& k : load_keys)
      if (k.is_for_all) out.load.*k.field = load_.*k.field;
  } else {
    // If the run goes back to the very checkpoint from which it began, that checkpoint is loaded with the same keys
    // again.
    TROUPE_ASSIGN(auto load, own_load(again ? [](const std::string&) {} : say));
    out.load = std::move(load);
    own_begin_ = newest;
  }
  out.load.path = root_;
  // Without `latest`, the reader must search the folder for the newest checkpoint; the reader reports that.
  if (latest && !*latest) out.load.fallback_to_previous = true;
  return out;
}

std::optional<own_checkpoint> checkpoint_start::newest_before(uint64_t step) const {
  const auto there = checkpoints_in(root_);
  std::optional<own_checkpoint> out;
  if (!there) return out;
  for (const auto& c : *there)
    if (c.step < step && (!out || c.step > out->step)) out = own_checkpoint{root_ / c.name, c.step};
  return out;
}

core::result<void> checkpoint_start::begin(const run_start& start, uint64_t step, const say_function& say) const {
  TROUPE_ASSIGN(const auto there, checkpoints_in(root_));
  std::vector<fs::path> moved;
  for (const auto& c : there)
    if (!start.own || c.step > step) moved.emplace_back(c.name);
  if (moved.empty()) return {};
  // If `latest` names a checkpoint that is not moved, `latest` is not moved either: only an interrupted later save is
  // moved. Otherwise `latest` is moved before the checkpoints, because a crash between two moves must not leave a
  // `latest` that names a missing checkpoint.
  const auto latest = checkpoint::read_latest(storage::real_files(), root_);
  const bool named =
      start.own && latest && *latest && std::find(moved.begin(), moved.end(), (*latest)->folder) == moved.end();
  std::error_code e;
  if (!named && fs::exists(root_ / checkpoint::latest_file_name, e))
    moved.emplace(moved.begin(), checkpoint::latest_file_name);
  TROUPE_ASSIGN(const auto place, make_place_aside(root_));
  for (const auto& name : moved) {
    fs::rename(root_ / name, place / name, e);
    if (e) return core::fail(core::path_error("move", root_ / name, e.value()));
  }
  for (const auto& folder : {place, root_, root_.parent_path()}) TROUPE_TRY(storage::real_files().sync_folder(folder));
  say(fmt::format("{}: checkpoints {} are in {} now", root_.string(),
                  start.own ? fmt::format("after step {}", step) : "of an earlier run", place.string()));
  return {};
}

}  // namespace troupe::apps
