#include "actors/peers/served_calls.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "actors/loading/travelling_load.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/peers/machine_disks.hpp"
#include "actors/peers/process_links.hpp"
#include "actors/processes/machine_clocks.hpp"
#include "actors/run/training_run.hpp"
#include "core/token_order.hpp"
#include "data/batch.hpp"

namespace troupe::actors {

namespace {

/// Returns the batch that a call contains, with the order in which a training step sums gradients of embeddings.
std::shared_ptr<const data::batch> as_batch(const told_batch& told) {
  auto out = std::make_shared<data::batch>();
  out->rows = told.rows;
  out->columns = told.columns;
  out->tokens = told.tokens;
  out->samples = told.samples;
  out->targets = told.targets;
  out->weights = told.weights;
  out->loss_factor = told.loss_factor;
  if (told.columns > 0) out->by_token = core::order_of_inputs(out->tokens, told.columns - 1);
  return out;
}

/// Returns the answer to a call that succeeds without values or fails with an error.
call_answer answer_of(const core::result<void>& did) {
  if (did) return {};
  return {true, did.error().kind, did.error().text};
}

}  // namespace

core::result<void> served_calls::obey(const cluster::call& c) {
  TROUPE_ASSIGN(auto call, decode_call(c.what));
  if (const auto* run = std::get_if<run_call>(&call)) return obey(c.number, *run);
  if (const auto* read = std::get_if<read_call>(&call)) return obey(c.number, *read);
  if (const auto* write = std::get_if<write_call>(&call)) return obey(c.number, *write);
  if (const auto* names = std::get_if<names_call>(&call)) return links_.saves->follow(names->names);
  if (const auto* load = std::get_if<load_call>(&call)) return obey(c.number, *load);
  if (const auto* offload = std::get_if<offload_call>(&call)) return obey(c.number, *offload);
  if (auto* masks = std::get_if<masks_call>(&call)) {
    for (size_t i = 0; i < masks->masks.size() && i < run_.term->pruner.masks()->modules().size(); ++i)
      run_.term->pruner.masks()->set(i, std::move(masks->masks[i]));
    return {};
  }
  if (auto* schedule = std::get_if<schedule_call>(&call)) {
    links_.schedule = std::move(schedule->entries);
    return {};
  }
  if (std::holds_alternative<reload_call>(call)) {
    const auto did = reload_here(run_);
    links_.link->reply(c.number, encode(answer_of(did)));
    return {};
  }
  if (const auto* tag = std::get_if<tag_call>(&call)) {
    call_answer out;
    if (run_.host.hooks.tag_of) out.text = run_.host.hooks.tag_of(tag->step);
    links_.link->reply(c.number, encode(out));
    return {};
  }
  if (const auto* committed = std::get_if<committed_call>(&call)) {
    disks_.keep(*committed);
    return {};
  }
  return core::fail(error_kind::bug, "processes: wanted a call within a term, got its opening");
}

core::result<void> served_calls::obey(uint64_t number, const run_call& c) {
  auto& x = links_;
  run_wish wish{.own_samples = c.own_samples,
                .micros = c.micros,
                .keeps = c.keeps,
                .output = c.output,
                .computes_loss = c.computes_loss};
  for (const told_batch& one : c.given) wish.given.push_back(as_batch(one));
  run_.counts.runs = c.run - 1;
  TROUPE_TRY(run_.passes.enter_phase());
  TROUPE_TRY(run_.passes.use_updates(c.early_updates));
  TROUPE_TRY(run_.passes.use_micros(c.step_micros));
  TROUPE_TRY(run_.term->want(c.which));
  auto order = run_.steps.order_for(c.which, c.step, wish);
  if (c.settings.size() != order->settings.size())
    return core::fail(core::error_kind::mismatch,
                      fmt::format("processes: wanted settings of {} optimizer groups, got those of {}",
                                  order->settings.size(), c.settings.size()));
  order->settings = c.settings;
  if (saves(c.which)) {
    TROUPE_ASSIGN(const auto invitation, decode_save_invitation(c.invitation));
    TROUPE_ASSIGN(const auto request, decode_save_request(c.request));
    if (c.saves_in_memory) TROUPE_TRY(x.saves->prepare(invitation.working));
    TROUPE_ASSIGN(const auto place,
                  c.saves_in_memory ? core::result<save_invitation>(invitation) : disks_.place_of_part(invitation));
    TROUPE_ASSIGN(auto joined,
                  join_save(c.saves_in_memory ? x.saves->files() : storage::real_files(), c.run, place, request));
    order->save = joined;
  }
  TROUPE_ASSIGN(auto did, run_.steps.run_here(c.which, order));
  if (plan::mode_of(c.which) == plan::mode::train) run_.steps.book(did);
  if (c.own_samples > 0) TROUPE_TRY(run_.steps.take_own_samples(c.own_samples));
  run_.host.deliver();
  run_answer out;
  out.reports = std::move(*did.ranks);
  out.clock = shift_to_supervisor(*x.link);
  for (const auto& r : out.reports)
    out.peak_bytes.push_back(run_.term->memory.ledger->peak_bytes(run_.term->memory.ledger->owner(r.rank)));
  out.machine = x.members->machine();
  if (const auto* const wire = x.shared->wire()) {
    out.entered_bytes = wire->entered_bytes();
    out.links = wire->links();
  }
  x.link->reply(number, encode(out));
  return {};
}

core::result<void> served_calls::obey(uint64_t number, const read_call& c) {
  // only the process that has the rank answers
  if (c.rank >= run_.term->memory.ranks.size() || !links_.is_here(c.rank)) return {};
  std::string bytes(c.count * core::size_of(c.type), '\0');
  const state_store store(*run_.term->memory.ranks[c.rank]);
  TROUPE_TRY(
      store.read_as(c.parameter, c.part, {c.first, c.count}, c.type, reinterpret_cast<std::byte*>(bytes.data())));
  links_.link->reply(number, std::move(bytes));
  return {};
}

core::result<void> served_calls::obey(uint64_t number, const write_call& c) {
  const auto& w = c.where;
  if (w.rank >= run_.term->memory.ranks.size() || !links_.is_here(w.rank)) return {};
  if (c.bytes.size() != w.count * core::size_of(w.type))
    return core::fail(error_kind::bug,
                      fmt::format("processes: wanted the bytes of {} elements, got {}", w.count, c.bytes.size()));
  const state_store store(*run_.term->memory.ranks[w.rank]);
  TROUPE_TRY(store.write_as(w.parameter, w.part, {w.first, w.count}, w.type,
                            reinterpret_cast<const std::byte*>(c.bytes.data())));
  links_.link->reply(number, {});
  return {};
}

core::result<void> served_calls::obey(uint64_t number, const load_call& c) {
  auto& link = *links_.link;
  bool has_looked = false;
  uint64_t told = number;  // number of the call that waits for an answer; 0: none
  const auto hear_decision = [&](const call_answer& mine) -> core::result<bool> {
    has_looked = true;
    link.reply(std::exchange(told, 0), encode(mine));
    TROUPE_ASSIGN(const auto next, link.next_call());
    TROUPE_ASSIGN(const auto decoded, decode_call(next.what));
    const auto* const go = std::get_if<go_call>(&decoded);
    if (go == nullptr) return core::fail(error_kind::bug, "processes: wanted whether a load goes on, got another call");
    told = next.number;
    return go->goes_on;
  };
  bool is_off = false;
  const load_agreement agreed{.before_changes = [&]() -> core::result<void> {
                                TROUPE_ASSIGN(const auto goes_on, hear_decision({}));
                                is_off = !goes_on;
                                if (is_off) return core::fail(error_kind::stopped, "another process refuses it");
                                return {};
                              },
                              .after_changes = [&]() -> core::result<void> {
                                link.reply(told, encode(call_answer()));
                                return {};
                              }};
  opening_watch unwatched({});
  const auto folder = run_.resumer.resume(c.load.path, arrived(c.load), resume_time::while_running, unwatched, agreed);
  if (is_off) return {};
  if (!folder && !has_looked) {
    TROUPE_TRY(hear_decision(answer_of(core::fail(folder.error()))));
    return {};
  }
  if (!folder) {
    if (told != 0) link.reply(told, encode(answer_of(core::fail(folder.error()))));
    return core::fail(folder.error());
  }
  ++run_.counts.loads;
  run_.loop.go_back(run_.progress.steps);
  return run_.resumer.tell_loader();
}

core::result<void> served_calls::obey(uint64_t number, const offload_call& c) {
  const auto did = offload_here(run_, {c.include, c.device, c.nvme_path});
  call_answer out;
  if (did) {
    out.moved_bytes = did->moved_bytes;
    out.freed_bytes = did->freed_bytes;
  } else {
    out = answer_of(core::fail(did.error()));
  }
  links_.link->reply(number, encode(out));
  return {};
}

core::result<std::shared_ptr<save_job>> served_calls::join_save(storage::file_system& files, uint64_t run,
                                                                const save_invitation& invitation,
                                                                const save_request& request) {
  TROUPE_ASSIGN(const auto saves, run_.term->saving_plans());
  return save_job::join(files, invitation, request, run_.progress.steps, saves, run_.term->plan.tensor,
                        run_.others->here(),
                        [link = links_.link, run, folder = invitation.working, &files](part_result part) {
                          // Syncs the folder here: the leading process syncs only its own, which may be on another
                          // machine's disk.
                          if (!part.failure)
                            if (const auto synced = files.sync_folder(folder); !synced) part.failure = synced.error();
                          link->reply(0, part_taker::note(run, part));
                        });
}

core::result<void> served_calls::obey_until_masks() {
  for (;;) {
    TROUPE_ASSIGN(const auto next, links_.link->next_call());
    TROUPE_ASSIGN(const auto decoded, decode_call(next.what));
    TROUPE_TRY(obey(next));
    if (std::holds_alternative<masks_call>(decoded)) return {};
  }
}

}  // namespace troupe::actors
