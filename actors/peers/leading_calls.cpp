#include "actors/peers/leading_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/loading/travelling_load.hpp"
#include "actors/peers/memory_keeper.hpp"
#include "actors/peers/process_links.hpp"
#include "actors/processes/machine_clocks.hpp"
#include "actors/run/training_run.hpp"
#include "actors/supervisor.hpp"
#include "checkpoint/commit/tag_validation.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

/// Largest number of bytes of states that one message carries.
constexpr uint64_t read_bytes_max = uint64_t{64} << 20;

/// Updates the count of network traffic after a training step. `entered`: bytes that have entered each machine since
/// the term (time with the same processes) began. The first call only stores them as the start of counting.
void count_network(network_count& to, const std::map<uint32_t, uint64_t>& entered) {
  if (to.before_bytes.empty()) {
    to.before_bytes = entered;
    return;
  }
  for (const auto& [machine, bytes] : entered) to.entered_bytes[machine] = bytes - to.before_bytes[machine];
  ++to.steps;
}

std::optional<core::error> first_failure(const std::vector<call_answer>& all) {
  const auto at = std::ranges::find_if(all, &call_answer::failed);
  if (at == all.end()) return std::nullopt;
  return core::error{at->kind, at->text};
}

}  // namespace

core::result<run_outcome> leading_calls::run(plan::plan_choice which, const std::shared_ptr<step_order>& order) {
  auto& x = links_;
  run_call c;
  c.run = order->run;
  c.step = order->step;
  c.which = which;
  c.micros = order->micros;
  c.keeps = order->keeps;
  c.computes_loss = order->computes_loss;
  c.output = order->output;
  c.early_updates = run_.passes.updates_early();
  c.settings = order->settings;
  c.step_micros = run_.passes.step_micros();
  c.own_samples = order->own_samples;
  for (const auto& one : order->given)
    c.given.push_back(
        {one->rows, one->columns, one->tokens, one->samples, one->targets, one->weights, one->loss_factor});
  if (order->save != nullptr) {
    c.saves_in_memory = order->save == keeper_.under_way();
    const auto& save = c.saves_in_memory ? keeper_.under_way() : run_.saves.writing();
    c.invitation = encode(save->invitation());
    c.request = encode(save->request());
    x.parts->expect(order->run, save);
  }
  const uint64_t number = x.link->tell(encode(peer_call(std::move(c))));
  auto out = run_.steps.run_here(which, order);
  if (!out) return out;
  if (auto ok = add_reports(number, *out); !ok) {
    run_.over.why = ok.error();
    return core::fail(ok.error());
  }
  return out;
}

core::result<void> leading_calls::add_reports(uint64_t number, run_outcome& to) {
  auto& x = links_;
  TROUPE_ASSIGN(const auto answers, x.link->answers(number, x.members->seats.size() - 1));
  std::map<uint32_t, uint64_t> entered;
  std::vector<link_traffic> links;
  if (const auto* const wire = x.shared->wire()) {
    entered[x.members->machine()] = wire->entered_bytes();
    links = wire->links();
  }
  std::vector<told_clock> clocks;
  const size_t own = to.ranks->size();
  for (const auto& a : answers) {
    TROUPE_ASSIGN(auto told, decode_run_answer(a.what));
    if (!entered.empty()) entered[told.machine] += told.entered_bytes;
    links.insert(links.end(), told.links.begin(), told.links.end());
    for (size_t i = 0; i < told.reports.size(); ++i) {
      auto& r = told.reports[i];
      if (r.rank >= run_.term->ranks() || x.is_here(r.rank))
        return core::fail(
            error_kind::bug,
            fmt::format("processes: wanted reports of a process's own ranks, got one of rank {}", r.rank));
      const auto& ran = run_.term->program_of(to.which, r.rank);
      r.spans.plan = ran->plan;
      r.spans.told_others = ran->tells;
      if (i < told.peak_bytes.size()) x.peak_bytes[r.rank] = std::max(x.peak_bytes[r.rank], told.peak_bytes[i]);
      if (told.clock) clocks.push_back({x.members->machine_of(r.rank), *told.clock});
      to.ranks->push_back(std::move(r));
    }
  }
  if (plan::mode_of(to.which) == plan::mode::train) {
    count_network(x.counts.network, entered);
    name_slow_links(links);
  }
  const auto shifts = shifts_onto(x.members->machine(), shift_to_supervisor(*x.link), clocks);
  for (size_t i = own; i < to.ranks->size(); ++i)
    if (const auto at = shifts.find(x.members->machine_of((*to.ranks)[i].rank)); at != shifts.end())
      telemetry::shift((*to.ranks)[i].spans, at->second);
  std::ranges::sort(*to.ranks, {}, &rank_report::rank);
  if (const auto mode = plan::mode_of(to.which); mode == plan::mode::train || mode == plan::mode::evaluate)
    if (const auto why = disagreement(*to.ranks)) return core::fail(*why);
  return {};
}

void leading_calls::name_slow_links(const std::vector<link_traffic>& links) {
  auto& x = links_;
  for (const auto& found : slow_.note(core::now_ns(), links)) {
    auto report = report_of(found, run_.progress.steps + 1, *x.members, x.job->cluster.hosts);
    const std::string ends = ends_of(report);
    run_.host.warnings->put(text_of(report));
    untold_.push_back(std::move(report));
    if (std::ranges::find(slow_ends_, ends) == slow_ends_.end()) slow_ends_.push_back(ends);
  }
}

states_elsewhere leading_calls::states_of(uint32_t rank) const {
  const auto in_parts = [](plan::slice range, core::dtype type, auto use) -> core::result<void> {
    const uint64_t most = read_bytes_max / core::size_of(type);
    for (uint64_t done = 0; done < range.count;) {
      const uint64_t count = std::min(range.count - done, most);
      TROUPE_TRY(use(plan::slice{range.first + done, count}, done * core::size_of(type)));
      done += count;
    }
    return {};
  };
  const auto link = links_.link;
  states_elsewhere out;
  out.read = [=](uint32_t q, plan::state_part part, plan::slice range, core::dtype type, std::byte* to) {
    return in_parts(range, type, [&](plan::slice s, uint64_t offset) -> core::result<void> {
      const auto number = link->tell(encode(peer_call(read_call{rank, q, part, s.first, s.count, type})));
      TROUPE_ASSIGN(const auto got, link->answers(number, 1));
      std::ranges::copy(std::as_bytes(std::span(got.front().what)), to + offset);
      return {};
    });
  };
  out.write = [=](uint32_t q, plan::state_part part, plan::slice range, core::dtype type, const std::byte* from) {
    return in_parts(range, type, [&](plan::slice s, uint64_t offset) -> core::result<void> {
      write_call c{{rank, q, part, s.first, s.count, type}, {}};
      c.bytes.assign(reinterpret_cast<const char*>(from) + offset, s.count * core::size_of(type));
      TROUPE_TRY(link->answers(link->tell(encode(peer_call(std::move(c)))), 1));
      return {};
    });
  };
  return out;
}

core::result<std::vector<call_answer>> leading_calls::results_of(uint64_t number) {
  const auto& seats = links_.members->seats;
  auto answers = links_.link->answers(number, seats.size() - 1);
  if (!answers) {
    run_.over.why = answers.error();
    return core::fail(answers.error());
  }
  const auto seat_of = [&](const cluster::answer& a) {
    return std::ranges::find(seats, a.place, &cluster::seat::place);
  };
  std::ranges::sort(*answers, {}, seat_of);
  std::vector<call_answer> out;
  for (const auto& a : *answers) {
    TROUPE_ASSIGN(auto one, decode_call_answer(a.what));
    out.push_back(std::move(one));
  }
  return out;
}

core::result<std::filesystem::path> leading_calls::load(const std::filesystem::path& path,
                                                        const load_options& options) {
  auto& link = *links_.link;
  const auto load = travelling(path, options, *run_.term->plan.tensor.whole);
  const uint64_t looked = link.tell(encode(peer_call(load_call{load})));
  bool has_asked = false;
  uint64_t went_on = 0;
  const auto decide = [&](bool goes_on) -> core::result<void> {
    has_asked = true;
    TROUPE_ASSIGN(const auto all, results_of(looked));
    const auto refusal = first_failure(all);
    went_on = link.tell(encode(peer_call(go_call{goes_on && !refusal})));
    if (refusal) return core::fail(*refusal);
    return {};
  };
  const load_agreement agreed{.before_changes = [&] { return decide(true); },
                              .after_changes = [&]() -> core::result<void> {
                                TROUPE_ASSIGN(const auto all, results_of(went_on));
                                const auto failure = first_failure(all);
                                if (!failure) return {};
                                run_.over.why = failure->in("the load failed after it had changed some states");
                                return core::fail(*run_.over.why);
                              }};
  opening_watch unwatched({});
  auto folder = run_.resumer.resume(load.path, arrived(load), resume_time::while_running, unwatched, agreed);
  if (!folder && !has_asked) (void)decide(false);
  return folder;
}

core::result<offload_report> leading_calls::offload(const offload_request& request) {
  auto& link = *links_.link;
  const uint64_t number =
      link.tell(encode(peer_call(offload_call{request.include, request.device, request.nvme_path.string()})));
  auto report = offload_here(run_, request);
  TROUPE_ASSIGN(const auto all, results_of(number));
  const auto failure = report ? first_failure(all) : std::optional(report.error());
  if (failure) {
    TROUPE_TRY(reload());
    return core::fail(*failure);
  }
  for (const auto& one : all) {
    report->moved_bytes += one.moved_bytes;
    report->freed_bytes += one.freed_bytes;
  }
  return report;
}

core::result<void> leading_calls::reload() {
  const uint64_t number = links_.link->tell(encode(peer_call(reload_call{})));
  const auto mine = reload_here(run_);
  TROUPE_ASSIGN(const auto all, results_of(number));
  if (!mine) return mine;
  if (const auto failure = first_failure(all)) return core::fail(*failure);
  return {};
}

core::result<void> leading_calls::check_tags(const std::string& mine) {
  const auto policy = run_.term->plan.config->checkpoint.tag_validation;
  if (policy == config::tag_policy::ignore) return {};
  const auto all = results_of(links_.link->tell(encode(peer_call(tag_call{run_.progress.steps}))));
  if (!all) {
    run_.over.why.reset();  // a process was lost; this call does not report it, because the save that follows detects
                            // it again
    return {};
  }
  std::vector<std::string> tags{mine};
  for (const auto& one : *all) tags.push_back(one.text.empty() ? mine : one.text);
  const auto mode =
      policy == config::tag_policy::fail ? checkpoint::tag_validation::fail : checkpoint::tag_validation::warn;
  auto ok = checkpoint::validate_tags(tags, mode, [&](const std::string& line) { run_.host.warnings->put(line); });
  if (ok) return ok;
  return core::fail(ok.error().in("checkpoint.tag_validation"));
}

}  // namespace troupe::actors
