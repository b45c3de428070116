// Owns the options of the commands that talk to other machines. Both programs use them: troupe-agent executes the
// commands, and `troupe` shows and completes the options without linking the network code.
#include "apps/agent/agent_command.hpp"
#include "apps/agent/cert_command.hpp"
#include "apps/agent/doctor_command.hpp"
#include "apps/agent/launch_command.hpp"
#include "apps/base/common_options.hpp"

namespace troupe::apps {

void add_agent_options(CLI::App& command, agent_arguments& a) {
  auto* const join = command.add_option(
      "--join", a.join, "HOST:PORT of the first host, its cluster.listen; not needed if a store names the leader");
  command.add_option("--tls", a.tls, "the folder of this host's certificate, as `troupe cert issue` made it")
      ->required();
  command.add_option("--job", a.job, "the job's name, if the first host's file has one (cluster.job)");
  command.add_option("--store", a.store,
                     "etcd://HOST:PORT or etcds://..., the file's cluster.store, which names the leader");
  auto* const config = command.add_option(
      "--config", a.configuration,
      "this host's copy of the job's file: the first host refuses the agent if its own file differs");
  command.add_option("--set", a.set, "a key and its value, instead of that file's")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->needs(config);
  command
      .add_option("--first", a.first,
                  "the name in the first host's certificate, if it is not HOST, for example because HOST is an "
                  "address")
      ->needs(join);
}

CLI::Option* add_doctor_options(CLI::App& command, doctor_arguments& a) {
  auto* const cluster =
      command.add_option("--cluster", a.file, "the file of a job on several hosts, which are examined");
  command.add_option("--set", a.set, "a key and its value, instead of the file's")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->needs(cluster);
  command.add_option("--wait", a.wait_s, "seconds to wait for the agents")->capture_default_str()->needs(cluster);
  add_json(command, a.form);
  return cluster;
}

cert_command::cert_command(CLI::App& parent)
    : program_command(parent, "cert", "certificates by which the machines of a job trust each other") {
  command_->require_subcommand(1);
  init_ = command_->add_subcommand("init", "make the authority of a job");
  issue_ =
      command_->add_subcommand("issue", "make keys and certificates of hosts: a host needs the folder FOLDER/HOST");
  renew_ = command_->add_subcommand("renew", "make new certificates for the keys that hosts have");
  for (auto* c : {init_, issue_, renew_}) {
    c->add_option("folder", folder_, "the folder of the authority; its key stays there")->required();
    c->add_option("--days", days_, "days for which they are valid; by default 3650 for an authority, 365 for hosts");
  }
  for (auto* c : {issue_, renew_}) c->add_option("hosts", hosts_, "names or IP addresses")->required();
  for (auto* c : {init_, issue_}) c->add_flag("--force", force_, "replace existing files");
  init_->add_option("--name", authority_, "name of the authority")->capture_default_str();
}

launch_command::launch_command(CLI::App& parent)
    : program_command(parent, "launch",
                      "start one job by ssh on the machines of a DeepSpeed hostfile; after its options "
                      "come the file and the options of `troupe train`") {
  command_->add_option("--hostfile", hostfile_, "lines `HOST slots=N`: a rank for each slot; the first host leads")
      ->required();
  command_->add_option("--include", include_, "HOST or HOST:SLOT,SLOT, joined by @: use only these");
  command_->add_option("--exclude", exclude_, "the same form: use all but these");
  command_->add_option("--master-addr,--master_addr", leader_,
                       "address at which the others reach the first host, if not its name in the hostfile");
  command_
      ->add_option("--master-port,--master_port", port_,
                   "port at which it waits for them, if the file has no cluster.listen")
      ->check(CLI::Range(1, 65'535))
      ->capture_default_str();
  command_->add_option("--program", program_, "path of troupe on the other hosts, if it differs from the path here");
  command_->add_option("--ssh-port", ssh_.port, "port of ssh, instead of the one in its configuration");
  command_->add_option("--ssh-option", ssh_.further, "KEY=VALUE, as for ssh -o; may come several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command_->prefix_command();
}

}  // namespace troupe::apps
