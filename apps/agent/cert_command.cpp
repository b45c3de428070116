#include "apps/agent/cert_command.hpp"

#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "net/certificates.hpp"

namespace troupe::apps {

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

bool cert_command::chosen() const { return command_->parsed(); }

int cert_command::run() const {
  net::issue_options o;
  o.days = days_ > 0 ? days_ : *init_ ? net::authority_days : net::certificate_days;
  o.replaces = force_;
  if (*init_) {
    if (const auto ok = net::make_authority(folder_, authority_, o); !ok) return failed(ok.error());
    std::printf("%s: the authority of a job; troupe cert issue %s HOST... makes what its hosts need\n", folder_.c_str(),
                folder_.c_str());
    return 0;
  }
  for (const auto& host : hosts_) {
    const auto ok = *issue_ ? net::issue_certificate(folder_, host, o) : net::renew_certificate(folder_, host, o);
    if (!ok) return failed(ok.error());
    std::printf("%s/%s\n", folder_.c_str(), host.c_str());
  }
  return 0;
}

}  // namespace troupe::apps
