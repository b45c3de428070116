// Executes calls between the process that leads a term and those that serve it: runs of plans, access to states of
// ranks in other processes. Owns which process does what; actors/processes/calls.hpp owns the form of calls.
#include <algorithm>
#include <utility>

#include "actors/processes/machine_clocks.hpp"
#include "actors/session/parts.hpp"
#include "actors/supervisor.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

/// Most bytes of states in one message.
constexpr uint64_t read_bytes_max = uint64_t{64} << 20;

/// Adds the network traffic of a training step. `entered`: bytes since the term began, by machine.
void count_network(network_count& to, const std::map<uint32_t, uint64_t>& entered) {
  if (to.before_bytes.empty()) {
    to.before_bytes = entered;
    return;
  }
  for (const auto& [machine, bytes] : entered) to.entered_bytes[machine] = bytes - to.before_bytes[machine];
  ++to.steps;
}

/// Returns the shift from this process's clock to the supervisor's, if it is known.
std::optional<telemetry::clock_shift> to_supervisor(const cluster::process& link) {
  const auto known = link.clock();
  if (!known) return std::nullopt;
  return telemetry::clock_shift{known->offset_ns, known->error_ns};
}

}  // namespace

core::result<run_outcome> session::parts::run_everywhere(plan::plan_choice which,
                                                         const std::shared_ptr<step_order>& order) {
  auto& x = processes;
  if (!x.is_on() || !x.leads()) return run_here(which, order);
  run_call c;
  c.run = order->run;
  c.step = order->step;
  c.which = which;
  c.micros = order->micros;
  c.keeps_logits = order->keeps_logits;
  c.computes_loss = order->computes_loss;
  c.output = order->output;
  c.early_updates = updates_early();
  if (order->given) {
    c.rows = order->given->rows;
    c.columns = order->given->columns;
    c.tokens = order->given->tokens;
  }
  if (order->save != nullptr) {
    const auto& save = x.kept != nullptr && order->save == x.kept ? x.kept : saving.writing;
    c.saves_in_memory = save == x.kept;
    c.invitation = encode(save->invitation());
    c.request = encode(save->request());
    x.parts->expect(order->run, save);
  }
  const uint64_t number = x.link->tell(encode(peer_call(std::move(c))));
  auto out = run_here(which, order);
  if (!out) return out;
  if (auto ok = add_reports(number, *out); !ok) {
    over.why = ok.error();
    return core::fail(ok.error());
  }
  return out;
}

core::result<void> session::parts::add_reports(uint64_t number, run_outcome& to) {
  auto& x = processes;
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
      if (r.rank >= programs.size() || x.is_here(r.rank))
        return core::fail(error_kind::bug, "processes: wanted reports of a process's own ranks, got one of rank " +
                                               std::to_string(r.rank));
      const auto& ran = program_of(to.which, r.rank);
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
  const auto shifts = shifts_onto(x.members->machine(), to_supervisor(*x.link), clocks);
  for (size_t i = own; i < to.ranks->size(); ++i)
    if (const auto at = shifts.find(x.members->machine_of((*to.ranks)[i].rank)); at != shifts.end())
      telemetry::shift((*to.ranks)[i].spans, at->second);
  std::ranges::sort(*to.ranks, {}, &rank_report::rank);
  if (const auto mode = plan::mode_of(to.which); mode == plan::mode::train || mode == plan::mode::evaluate)
    if (const auto why = disagreement(*to.ranks)) return core::fail(*why);
  return {};
}

void session::parts::name_slow_links(const std::vector<link_traffic>& links) {
  auto& x = processes;
  for (const auto& found : x.links.note(core::now_ns(), links)) {
    auto report = report_of(found, progress.steps + 1, *x.members, x.job->cluster.hosts);
    const std::string ends = ends_of(report);
    host.warnings->put(text_of(report));
    x.slow_links_untold.push_back(std::move(report));
    if (std::ranges::find(x.slow_link_ends, ends) == x.slow_link_ends.end()) x.slow_link_ends.push_back(ends);
  }
}

core::result<void> session::parts::obey(const cluster::call& c) {
  TROUPE_ASSIGN(auto call, decode_call(c.what));
  if (const auto* run = std::get_if<run_call>(&call)) return obey(c.number, *run);
  if (const auto* read = std::get_if<read_call>(&call)) return obey(c.number, *read);
  if (const auto* write = std::get_if<write_call>(&call)) return obey(c.number, *write);
  if (const auto* names = std::get_if<names_call>(&call)) return processes.saves->follow(names->names);
  if (const auto* load = std::get_if<load_call>(&call)) return obey(c.number, *load);
  if (const auto* offload = std::get_if<offload_call>(&call)) return obey(c.number, *offload);
  if (auto* masks = std::get_if<masks_call>(&call)) {
    for (size_t i = 0; i < masks->masks.size() && i < memory.masks->modules().size(); ++i)
      memory.masks->set(i, std::move(masks->masks[i]));
    return {};
  }
  if (auto* schedule = std::get_if<schedule_call>(&call)) {
    processes.schedule = std::move(schedule->entries);
    return {};
  }
  if (std::holds_alternative<reload_call>(call)) {
    const auto did = reload_here();
    processes.link->reply(c.number,
                          encode(did ? deed_answer() : deed_answer{true, did.error().kind, did.error().text}));
    return {};
  }
  if (const auto* tag = std::get_if<tag_call>(&call)) {
    deed_answer out;
    if (host.hooks.tag_of) out.text = host.hooks.tag_of(tag->step);
    processes.link->reply(c.number, encode(out));
    return {};
  }
  if (const auto* committed = std::get_if<committed_call>(&call)) return obey(*committed);
  return core::fail(error_kind::bug, "processes: wanted a call within a term, got its opening");
}

core::result<void> session::parts::obey(uint64_t number, const run_call& c) {
  auto& x = processes;
  run_wish wish{.given = {},
                .micros = c.micros,
                .keeps_logits = c.keeps_logits,
                .output = c.output,
                .computes_loss = c.computes_loss};
  if (c.columns > 0) {
    auto given = std::make_shared<data::batch>();
    given->rows = c.rows;
    given->columns = c.columns;
    given->tokens = c.tokens;
    given->samples.assign(c.rows, 0);
    wish.given = std::move(given);
  }
  counts.runs = c.run - 1;
  TROUPE_TRY(enter_phase());
  TROUPE_TRY(use_updates(c.early_updates));
  TROUPE_TRY(want(c.which));
  auto order = order_for(c.which, c.step, wish);
  if (saves(c.which)) {
    const auto invitation = decode_save_invitation(c.invitation);
    const auto request = decode_save_request(c.request);
    if (!invitation) return core::fail(invitation.error());
    if (!request) return core::fail(request.error());
    if (c.saves_in_memory) TROUPE_TRY(x.saves->prepare(invitation->working));
    TROUPE_ASSIGN(const auto place,
                  c.saves_in_memory ? core::result<save_invitation>(*invitation) : place_of_part(*invitation));
    TROUPE_ASSIGN(auto joined,
                  join_save(c.saves_in_memory ? x.saves->files() : checkpoint::real_files(), c.run, place, *request));
    order->save = joined;
  }
  TROUPE_ASSIGN(auto did, run_here(c.which, order));
  if (plan::mode_of(c.which) == plan::mode::train) book(did);
  deliver_warnings();
  run_answer out;
  out.reports = std::move(*did.ranks);
  out.clock = to_supervisor(*x.link);
  for (const auto& r : out.reports) out.peak_bytes.push_back(memory.ledger->peak_bytes(memory.ledger->owner(r.rank)));
  out.machine = x.members->machine();
  if (const auto* const wire = x.shared->wire()) {
    out.entered_bytes = wire->entered_bytes();
    out.links = wire->links();
  }
  x.link->reply(number, encode(out));
  return {};
}

core::result<void> session::parts::obey(uint64_t number, const read_call& c) {
  if (c.rank >= memory.ranks.size() || !processes.is_here(c.rank)) return {};  // another process answers
  std::string bytes(c.count * core::size_of(c.type), '\0');
  const state_store store(*memory.ranks[c.rank]);
  TROUPE_TRY(
      store.read_as(c.parameter, c.part, {c.first, c.count}, c.type, reinterpret_cast<std::byte*>(bytes.data())));
  processes.link->reply(number, std::move(bytes));
  return {};
}

core::result<void> session::parts::obey(uint64_t number, const write_call& c) {
  const auto& w = c.where;
  if (w.rank >= memory.ranks.size() || !processes.is_here(w.rank)) return {};
  if (c.bytes.size() != w.count * core::size_of(w.type))
    return core::fail(error_kind::bug, "processes: wanted the bytes of " + std::to_string(w.count) + " elements, got " +
                                           std::to_string(c.bytes.size()));
  const state_store store(*memory.ranks[w.rank]);
  TROUPE_TRY(store.write_as(w.parameter, w.part, {w.first, w.count}, w.type,
                            reinterpret_cast<const std::byte*>(c.bytes.data())));
  processes.link->reply(number, {});
  return {};
}

states_elsewhere session::parts::states_of(uint32_t rank) const {
  const auto in_parts = [](plan::slice range, core::dtype type, auto use) -> core::result<void> {
    const uint64_t most = read_bytes_max / core::size_of(type);
    for (uint64_t done = 0; done < range.count;) {
      const uint64_t count = std::min(range.count - done, most);
      TROUPE_TRY(use(plan::slice{range.first + done, count}, done * core::size_of(type)));
      done += count;
    }
    return {};
  };
  const auto link = processes.link;
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

core::result<void> session::serve() {
  auto& p = *parts_;
  while (!p.processes.leads()) {
    core::result<void> did;
    if (const auto call = p.processes.link->next_call())
      did = p.obey(*call);
    else
      did = core::fail(call.error());
    if (did) continue;
    TROUPE_TRY(p.recover(did.error()));
  }
  return {};
}

bool session::has_losses() const {
  const auto& p = *parts_;
  const bool waits = p.processes.is_on() && !p.over.why && p.memory.offloaded == nullptr;
  return waits && p.processes.link->ending().has_value();
}

core::result<void> session::recover() {
  auto& p = *parts_;
  if (!has_losses()) return {};
  const auto end = p.processes.link->ending();
  return p.recover_to(p.progress.steps, {end->kind, end->text}, core::now_ns());
}

bool session::leads() const { return parts_->processes.leads(); }
const recovery_counts& session::recoveries() const { return parts_->processes.counts; }

}  // namespace troupe::actors
