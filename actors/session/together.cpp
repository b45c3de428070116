// Executes requests of the leading process's host that all processes of a job do between two steps: load a checkpoint,
// move states out of memory and back, report names of a checkpoint. Owns that either all processes do it or none;
// resume.cpp and offload.cpp do the work.
#include <algorithm>
#include <utility>

#include "actors/session/parts.hpp"
#include "actors/session/travelling_load.hpp"
#include "checkpoint/commit/tag_validation.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

deed_answer answer_of(const core::result<void>& did) {
  if (did) return {};
  return {true, did.error().kind, did.error().text};
}

std::optional<core::error> first_failure(const std::vector<deed_answer>& all) {
  const auto at = std::ranges::find_if(all, &deed_answer::failed);
  if (at == all.end()) return std::nullopt;
  return core::error{at->kind, at->text};
}

}  // namespace

core::result<std::vector<deed_answer>> session::parts::deeds(uint64_t number) {
  const auto& seats = processes.members->seats;
  auto answers = processes.link->answers(number, seats.size() - 1);
  if (!answers) {
    over.why = answers.error();
    return core::fail(answers.error());
  }
  const auto seat_of = [&](const cluster::answer& a) {
    return std::ranges::find(seats, a.place, &cluster::seat::place);
  };
  std::ranges::sort(*answers, {}, seat_of);
  std::vector<deed_answer> out;
  for (const auto& a : *answers) {
    TROUPE_ASSIGN(auto one, decode_deed_answer(a.what));
    out.push_back(std::move(one));
  }
  return out;
}

// Loads a checkpoint on all processes. All check it first; states change only if no process refuses it.
core::result<std::filesystem::path> session::parts::load_together(const std::filesystem::path& path,
                                                                  const load_options& options) {
  auto& link = *processes.link;
  const auto load = travelling(path, options, *plan.tensor.whole);
  const uint64_t looked = link.tell(encode(peer_call(load_call{load})));
  bool has_asked = false;
  uint64_t went_on = 0;
  const auto decide = [&](bool goes_on) -> core::result<void> {
    has_asked = true;
    TROUPE_ASSIGN(const auto all, deeds(looked));
    const auto refusal = first_failure(all);
    went_on = link.tell(encode(peer_call(go_call{goes_on && !refusal})));
    if (refusal) return core::fail(*refusal);
    return {};
  };
  const load_agreement agreed{.before_changes = [&] { return decide(true); },
                              .after_changes = [&]() -> core::result<void> {
                                TROUPE_ASSIGN(const auto all, deeds(went_on));
                                const auto failure = first_failure(all);
                                if (!failure) return {};
                                over.why = failure->in("load, which has changed some states");
                                return core::fail(*over.why);
                              }};
  opening_watch unwatched({});
  auto folder = resume(load.path, arrived(load), resume_time::while_running, unwatched, agreed);
  if (!folder && !has_asked) (void)decide(false);
  return folder;
}

core::result<void> session::parts::obey(uint64_t number, const load_call& c) {
  auto& link = *processes.link;
  bool has_looked = false;
  uint64_t told = number;  // number of the call that is answered next
  const auto hear_decision = [&](const deed_answer& mine) -> core::result<bool> {
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
                                link.reply(told, encode(deed_answer()));
                                return {};
                              }};
  opening_watch unwatched({});
  const auto folder = resume(c.load.path, arrived(c.load), resume_time::while_running, unwatched, agreed);
  if (is_off) return {};
  if (!folder && !has_looked) {
    TROUPE_TRY(hear_decision(answer_of(core::fail(folder.error()))));
    return {};
  }
  if (!folder) {
    if (told != 0) link.reply(told, encode(answer_of(core::fail(folder.error()))));
    return core::fail(folder.error());
  }
  ++counts.loads;
  return tell_loader();
}

core::result<offload_report> session::parts::offload_together(const offload_request& request) {
  auto& link = *processes.link;
  const uint64_t number =
      link.tell(encode(peer_call(offload_call{request.include, request.device, request.nvme_path.string()})));
  auto report = offload_here(request);
  TROUPE_ASSIGN(const auto all, deeds(number));
  const auto failure = report ? first_failure(all) : std::optional(report.error());
  if (failure) {
    TROUPE_TRY(reload_together());
    return core::fail(*failure);
  }
  for (const auto& one : all) {
    report->moved_bytes += one.moved_bytes;
    report->freed_bytes += one.freed_bytes;
  }
  return report;
}

core::result<void> session::parts::obey(uint64_t number, const offload_call& c) {
  const auto did = offload_here({c.include, c.device, c.nvme_path});
  deed_answer out;
  if (did) {
    out.moved_bytes = did->moved_bytes;
    out.freed_bytes = did->freed_bytes;
  } else {
    out = answer_of(core::fail(did.error()));
  }
  processes.link->reply(number, encode(out));
  return {};
}

// Reloads states on all processes. After a loss the states are back in memory, because the term began with them there.
core::result<void> session::parts::reload_together() {
  const uint64_t number = processes.link->tell(encode(peer_call(reload_call{})));
  const auto mine = reload_here();
  TROUPE_ASSIGN(const auto all, deeds(number));
  if (!mine) return mine;
  if (const auto failure = first_failure(all)) return core::fail(*failure);
  return {};
}

core::result<void> session::parts::check_tags(const std::string& mine) {
  if (!processes.is_on()) return {};
  const auto policy = plan.config->checkpoint.tag_validation;
  if (policy == config::tag_policy::ignore) return {};
  const auto all = deeds(processes.link->tell(encode(peer_call(tag_call{progress.steps}))));
  if (!all) {
    over.why.reset();  // the following save detects the loss again
    return {};
  }
  std::vector<std::string> tags{mine};
  for (const auto& one : *all) tags.push_back(one.text.empty() ? mine : one.text);
  const auto mode =
      policy == config::tag_policy::fail ? checkpoint::tag_validation::fail : checkpoint::tag_validation::warn;
  auto ok = checkpoint::validate_tags(tags, mode, [&](const std::string& line) { host.warnings->put(line); });
  if (ok) return ok;
  return core::fail(ok.error().in("checkpoint.tag_validation"));
}

}  // namespace troupe::actors
