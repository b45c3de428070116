// Changes the degrees of a running session in the same process, or its ZeRO stage or tiers, from a step on. Owns which
// parts the next term takes over from the previous one, and that a refusal leaves the run unchanged. States are loaded
// by range, as from a checkpoint, so a term has the bits of a run that was saved, ended and resumed with its degrees;
// the data continue at their sample.
#include <fmt/format.h>

#include <utility>

#include "actors/session/memory_need.hpp"
#include "actors/session/parts.hpp"
#include "actors/session/states_source.hpp"
#include "actors/session/thread_room.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

/// Returns an error for settings that must be equal in every term, with the key.
core::result<void> same_job(const config::job_config& was, const config::job_config& next) {
  const auto refused = [](const char* key, auto wanted, auto got) {
    return core::fail(
        error_kind::bad_input,
        fmt::format("{}: wanted {}, as before in this run, whose degrees alone may change, got {}", key, wanted, got));
  };
  if (was.train_batch_size != next.train_batch_size)
    return refused("train_batch_size", was.train_batch_size, next.train_batch_size);
  if (was.seed != next.seed) return refused("seed", was.seed, next.seed);
  if (was.parameter_dtype() != next.parameter_dtype())
    return refused("the type of parameters", core::name_of(was.parameter_dtype()),
                   core::name_of(next.parameter_dtype()));
  if (was.device != next.device) return refused("device", core::name_of(was.device), core::name_of(next.device));
  if (was.cuda.devices != next.cuda.devices)
    return refused("cuda.devices", fmt::format("{}", fmt::join(was.cuda.devices, ", ")),
                   fmt::format("{}", fmt::join(next.cuda.devices, ", ")));
  if (was.cuda.tf32 != next.cuda.tf32) return refused("cuda.tf32", was.cuda.tf32, next.cuda.tf32);
  if (was.cuda.deterministic != next.cuda.deterministic)
    return refused("cuda.deterministic", was.cuda.deterministic, next.cuda.deterministic);
  return {};
}

/// Returns an error for settings that cannot be combined with a change of degrees yet.
core::result<void> check_beside(const config::job_config& c, bool own_modules, bool has_passes) {
  const auto refused = [](const char* key, const char* got) {
    return core::fail(error_kind::bad_input,
                      fmt::format("{}: cannot be combined with a change of degrees yet; the run has {}", key, got));
  };
  if (own_modules) return refused("model", "a host's own modules");
  if (has_passes) return refused("compile", "passes");
  if (!c.open_degrees.empty()) return refused("parallel", "degrees that are open");
  return {};
}

}  // namespace

term session::parts::give_term() {
  return {std::move(plan),
          std::exchange(programs, {}),
          std::exchange(memory, {}),
          std::exchange(actors.members, nullptr),
          std::exchange(counts.collectives, {}),
          data.loader,
          progress,
          snip};
}

void session::parts::take_term(term t) {
  plan = std::move(t.plan);
  programs = std::move(t.programs);
  memory = std::move(t.memory);
  actors.members = std::move(t.members);
  actors.stops.connect(actors.members->supervisor);
  counts.collectives = std::move(t.collectives);
  data.loader = std::move(t.loader);
  progress = std::move(t.progress);
  snip = std::move(t.snip);
  if (on_gpu == nullptr) return;
  if (auto ok = on_gpu->share_memory(memory.room->left_bytes()); !ok)
    host.warnings->put("LibTorch keeps the share of the GPU's memory that it had for the degrees that were refused: " +
                       ok.error().text);
}

core::result<void> session::parts::make_term(const term& before, const std::vector<checkpoint::mask_record>& masks) {
  opening_watch unwatched({});
  memory.ledger = std::make_unique<allocation_ledger>(plan.train.ranks());
  if (!plan.compression->pruned.empty()) memory.masks = std::make_shared<pruning_masks>(plan.compression);
  set_batch_shape();
  TROUPE_TRY(check_thread_room(threads_of(plan.train.ranks())));
  TROUPE_TRY(take_memory(first_weights::from_checkpoint, unwatched));
  for (const auto& m : before.memory.ranks) TROUPE_TRY(m->settle_writes());
  auto from =
      source_of_states({before.memory.ranks, before.plan.tensor}, *before.plan.tensor.whole, *before.plan.optimizer);
  auto& run = from.run;
  run.steps = before.progress.steps;
  run.samples = before.loader.shape.samples_before(before.progress.steps);
  run.samples_per_step = before.loader.shape.global_rows();
  run.seed = before.plan.config->seed;
  run.loss_scale = before.progress.scale_record();
  run.masks = masks;
  run.data = data_record();
  TROUPE_TRY(take_over(from, {.left_out = before.progress.left_out}, resume_time::while_opening, unwatched));
  progress = before.progress;        // all progress, including the part that checkpoints do not hold
  progress.gradient_factor.reset();  // the last step's gradients belong to the ranks of the previous term
  return start_actors();
}

core::result<void> session::parts::begin_term(std::shared_ptr<const config::job_config> next) {
  TROUPE_ASSIGN(auto planned, job::make_blueprint(std::move(next), {}, &plan.costs,
                                                  {{}, [](const job::blueprint& b) { return check_memory(b); }}));
  const auto masks = saved_masks();
  term before = give_term();
  before.memory.swaps.space.reset();  // the next term uses the same folder; files exist as long as they are referenced
  plan = std::move(planned);
  if (auto made = make_term(before, masks); !made) {
    take_term(std::move(before));
    return made;
  }
  before.members->telemetry = telemetry_actor();
  dismiss_and_wait(*actors.system, *before.members);
  return {};
}

core::result<void> session::change_degrees(std::shared_ptr<const config::job_config> next) {
  auto& p = *parts_;
  TROUPE_TRY(p.sound());
  if (next == nullptr)
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration to change its degrees to");
  TROUPE_TRY(same_job(*p.plan.config, *next));
  TROUPE_TRY(check_beside(*next, p.modules.model != nullptr, !p.passes.entries.empty()));
  if (p.processes.is_on()) return p.change_processes(*next);
  // The save reports its own failure to its host; here only the end of the run is an error.
  if (auto ok = p.end_saves(); !ok && p.over.why) return ok;
  return p.begin_term(std::move(next));
}

}  // namespace troupe::actors
