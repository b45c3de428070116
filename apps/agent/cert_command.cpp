#include "apps/agent/cert_command.hpp"

#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "net/certificates.hpp"

namespace troupe::apps {

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
