// Handles checkpoints of a job on several machines: checks whether `output` is one folder of all, or with
// `checkpoint.use_node_local_storage` a disk of each machine. Owns where a process writes its part of a checkpoint,
// which data the other machines receive, and which host has which file; actors/processes/node_local_files.hpp owns the
// names and the reads.
#include <fmt/format.h>

#include "actors/session/parts.hpp"
#include "checkpoint/commit/names.hpp"
#include "checkpoint/native/shard.hpp"

namespace troupe::actors {

using core::error_kind;

bool session::parts::has_disks_of_machines() const {
  return processes.is_on() && processes.job->checkpoint.use_node_local_storage && !processes.job->cluster.hosts.empty();
}

core::result<void> session::parts::look_at_output(std::optional<output_sign>& sign) {
  auto& x = processes;
  const bool shares = x.job->checkpoint.is_on() && !x.job->checkpoint.use_node_local_storage && !x.job->output.empty();
  if (!shares || x.members->machines().size() < 2) return {};
  if (x.leads()) {
    sign = output_sign::put(x.job->output);
    x.link->tell(encode(peer_call(sign ? sign->call() : output_call{})));
    return {};
  }
  TROUPE_ASSIGN(const auto call, x.link->next_call());
  TROUPE_ASSIGN(const auto decoded, decode_call(call.what));
  const auto* const c = std::get_if<output_call>(&decoded);
  if (c == nullptr) return core::fail(error_kind::bug, "processes: wanted a sign in the output, got another call");
  // A disk that fails later causes a warning of the save that fails, and does not end the run.
  const bool is_elsewhere = x.members->machine() != x.members->seats.front().machine;
  if (!is_elsewhere || x.has_seen_output || c->path.empty()) return {};
  TROUPE_TRY(look_for_sign(*c, x.link->place()));
  x.has_seen_output = true;
  return {};
}

std::unique_ptr<node_local_files> session::parts::files_of_machines() const {
  const auto& who = *processes.members;
  const auto& hosts = processes.job->cluster.hosts;
  std::vector<node_local_files::machine> others;
  for (const uint32_t m : who.machines())
    if (m != who.machine()) others.push_back({who.first_place_of(m), hosts[m].name, m == who.seats.front().machine});
  auto* const wire = processes.shared != nullptr ? processes.shared->wire() : nullptr;
  return std::make_unique<node_local_files>(hosts[who.machine()].name, std::move(others),
                                            wire != nullptr ? wire->files() : nullptr);
}

core::result<save_invitation> session::parts::place_of_part(const save_invitation& invitation) const {
  const auto& who = *processes.members;
  if (!has_disks_of_machines() || who.machine() == who.seats.front().machine) return invitation;
  save_invitation out{parts_folder(invitation.working.parent_path(), invitation.save_id), invitation.save_id};
  TROUPE_TRY(checkpoint::make_folders(checkpoint::real_files(), out.working));
  return out;
}

void session::parts::tell_machines(const save_job& save, const save_report& report) {
  if (!has_disks_of_machines() || report.folder.empty() || !processes.leads()) return;
  std::string writers;
  const auto& who = *processes.members;
  for (uint32_t r = 0; r < programs.size(); ++r)
    writers +=
        fmt::format("{} {}\n", checkpoint::shard_file_name(r), processes.job->cluster.hosts[who.machine_of(r)].name);
  const auto warn = [&](const core::error& why) {
    host.warnings->put(
        fmt::format("checkpoint.use_node_local_storage: after the checkpoint of step {}: {}", save.step(), why.text));
  };
  auto copy = copy_of(report.folder, std::move(writers));
  if (!copy) return warn(copy.error());
  if (auto ok = keep_copy(*copy, true); !ok) warn(ok.error());
  processes.link->tell(encode(peer_call(std::move(*copy))));
}

// Stores a committed checkpoint's data here. A failure leaves the checkpoint whole, because its manifest is on the
// machine that leads.
core::result<void> session::parts::obey(const committed_call& c) {
  const auto& who = *processes.members;
  const bool is_first = who.first_place_of(who.machine()) == who.place;
  if (!is_first || who.machine() == who.seats.front().machine) return {};
  if (auto ok = keep_copy(c, false); !ok)
    host.warnings->put("checkpoint.use_node_local_storage: no copy of the manifest of '" + c.folder +
                       "' on this machine: " + ok.error().text);
  return {};
}

}  // namespace troupe::actors
