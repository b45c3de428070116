#include "actors/peers/machine_disks.hpp"

#include <fmt/format.h>

#include "actors/peers/process_links.hpp"
#include "actors/run/training_run.hpp"
#include "formats/source/shard_header.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {

bool machine_disks::are_used() const {
  return links_.job->checkpoint.use_node_local_storage && !links_.job->cluster.hosts.empty();
}

core::result<void> machine_disks::look_at_output(std::optional<output_sign>& sign) {
  auto& x = links_;
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
  // The folder is checked once in a process: if its disk fails in a later term (time with the same processes), the save
  // that fails causes a warning, and the run continues.
  const bool is_elsewhere = x.members->machine() != x.members->seats.front().machine;
  if (!is_elsewhere || has_seen_output_ || c->path.empty()) return {};
  TROUPE_TRY(look_for_sign(*c, x.link->place()));
  has_seen_output_ = true;
  return {};
}

std::unique_ptr<node_local_files> machine_disks::files() const {
  const auto& who = *links_.members;
  const auto& hosts = links_.job->cluster.hosts;
  std::vector<node_local_files::machine> others;
  for (const uint32_t m : who.machines())
    if (m != who.machine()) others.push_back({who.first_place_of(m), hosts[m].name, m == who.seats.front().machine});
  auto* const wire = links_.shared != nullptr ? links_.shared->wire() : nullptr;
  return std::make_unique<node_local_files>(hosts[who.machine()].name, std::move(others),
                                            wire != nullptr ? wire->files() : nullptr);
}

core::result<save_invitation> machine_disks::place_of_part(const save_invitation& invitation) const {
  const auto& who = *links_.members;
  if (!are_used() || who.machine() == who.seats.front().machine) return invitation;
  save_invitation out{parts_folder(invitation.working.parent_path(), invitation.save_id), invitation.save_id};
  TROUPE_TRY(storage::make_folders(storage::real_files(), out.working));
  return out;
}

core::result<void> machine_disks::check_others() const {
  if (!are_used() || links_.job->output.empty()) return {};
  return files()->check_others(std::filesystem::absolute(links_.job->output).lexically_normal() / "checkpoints");
}

void machine_disks::tell_saved(const save_job& save, const save_report& report) {
  if (!are_used() || report.folder.empty() || !links_.leads()) return;
  std::string writers;
  const auto& who = *links_.members;
  for (uint32_t r = 0; r < run_.term->ranks(); ++r)
    writers += fmt::format("{} {}\n", formats::shard_file_name(r), links_.job->cluster.hosts[who.machine_of(r)].name);
  const auto warn = [&](const core::error& why) {
    run_.host.warnings->put(
        fmt::format("checkpoint.use_node_local_storage: after the checkpoint of step {}: {}", save.step(), why.text));
  };
  auto copy = copy_of(report.folder, std::move(writers));
  if (!copy) return warn(copy.error());
  if (auto ok = keep_copy(*copy, true); !ok) warn(ok.error());
  links_.link->tell(encode(peer_call(std::move(*copy))));
}

void machine_disks::keep(const committed_call& c) {
  const auto& who = *links_.members;
  const bool is_first = who.first_place_of(who.machine()) == who.place;
  if (!is_first || who.machine() == who.seats.front().machine) return;
  if (auto ok = keep_copy(c, false); !ok)
    run_.host.warnings->put("checkpoint.use_node_local_storage: after the checkpoint '" + c.folder +
                            "' was written, on this machine: " + ok.error().text);
}

}  // namespace troupe::actors
