// Owns the options of the commands that talk to other machines, for both programs: `troupe` shows and completes them
// without loading what the work needs.
#include "apps/agent/agent_command.hpp"
#include "apps/agent/cert_command.hpp"
#include "apps/agent/doctor_command.hpp"
#include "apps/agent/launch_command.hpp"
#include "apps/base/common_options.hpp"

namespace troupe::apps {

void add_agent_options(CLI::App& command, agent_arguments& a) {
  auto* const join = command.add_option(
      "--join", a.join, "HOST:PORT of the first host, its cluster.listen; not needed where a store says who leads");
  command.add_option("--tls", a.tls, "the folder of this host's certificate, as `troupe cert issue` made it")
      ->required();
  command.add_option("--job", a.job, "the job's name, where the first host's file has one (cluster.job)");
  command.add_option("--store", a.store,
                     "etcd://HOST:PORT or etcds://..., the file's cluster.store, which says who leads");
  auto* const config =
      command.add_option("--config", a.configuration,
                         "this host's copy of the job's file: a first host with another one refuses the agent");
  command.add_option("--set", a.set, "key=value over that file's")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->needs(config);
  command
      .add_option("--first", a.first,
                  "what the first host's certificate is for, where that is not HOST: its name, where HOST is an "
                  "address")
      ->needs(join);
}

CLI::Option* add_doctor_options(CLI::App& command, doctor_arguments& a) {
  auto* const cluster =
      command.add_option("--cluster", a.file, "the file of a job on several hosts, which are examined");
  command.add_option("--set", a.set, "key=value over the file's")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->needs(cluster);
  command.add_option("--wait", a.wait_s, "seconds that agents have to come")->capture_default_str()->needs(cluster);
  add_json(command, a.form);
  return cluster;
}

cert_command::cert_command(CLI::App& parent)
    : command_(parent.add_subcommand("cert", "certificates by which the machines of a job trust each other")) {
  command_->require_subcommand(1);
  init_ = command_->add_subcommand("init", "make the authority of a job");
  issue_ = command_->add_subcommand("issue", "make keys and certificates of hosts: FOLDER/HOST is what a host needs");
  renew_ = command_->add_subcommand("renew", "make new certificates for the keys that hosts have");
  for (auto* c : {init_, issue_, renew_}) {
    c->add_option("folder", folder_, "where the authority lies; its key stays there")->required();
    c->add_option("--days", days_, "how long they are good for; 3650 for an authority, 365 for hosts");
  }
  for (auto* c : {issue_, renew_}) c->add_option("hosts", hosts_, "names or IP addresses")->required();
  for (auto* c : {init_, issue_}) c->add_flag("--force", force_, "over what is there");
  init_->add_option("--name", authority_, "of the authority")->capture_default_str();
}

launch_command::launch_command(CLI::App& parent)
    : command_(parent.add_subcommand("launch",
                                     "one job on the machines of a DeepSpeed hostfile, by ssh; behind its options "
                                     "the file, and what else `troupe train` takes")) {
  command_->add_option("--hostfile", hostfile_, "lines `HOST slots=N`: a rank for each slot; the first host leads")
      ->required();
  command_->add_option("--include", include_, "HOST or HOST:SLOT,SLOT, joined by @: only these");
  command_->add_option("--exclude", exclude_, "the same: all but these");
  command_->add_option("--master-addr,--master_addr", leader_,
                       "how the others reach the first host, where not by its name in the hostfile");
  command_
      ->add_option("--master-port,--master_port", port_, "where it waits for them, if the file has no cluster.listen")
      ->check(CLI::Range(1, 65'535))
      ->capture_default_str();
  command_->add_option("--program", program_, "troupe on the other hosts, where it is not in the same place as here");
  command_->add_option("--ssh-port", ssh_.port, "instead of the one that ssh's configuration says");
  command_->add_option("--ssh-option", ssh_.further, "KEY=VALUE, as for ssh -o; may come several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command_->prefix_command();
}

}  // namespace troupe::apps
