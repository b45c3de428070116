#include "apps/agent/cert_command.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "apps/base/exit_code.hpp"
#include "net/certificates.hpp"

namespace troupe::apps {

namespace {

/// Returns the hosts that have a certificate in the authority's folder, separated by blanks.
std::string hosts_in(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  std::error_code e;
  for (const auto& one : std::filesystem::directory_iterator(folder, e))
    if (std::filesystem::exists(one.path() / "host.crt", e)) out.push_back(one.path().filename().string());
  std::ranges::sort(out);
  std::string text;
  for (const auto& host : out) text += (text.empty() ? "" : " ") + host;
  return text;
}

}  // namespace

int cert_command::run() const {
  net::issue_options o;
  const CLI::App* const chosen = *init_ ? init_ : *issue_ ? issue_ : renew_;
  o.days = chosen->count("--days") > 0 ? days_ : *init_ ? net::authority_days : net::certificate_days;
  o.replaces = force_;
  if (*init_) {
    if (const auto ok = net::make_authority(folder_, authority_, o); !ok) return failed(ok.error());
    std::printf("%s: the authority of a job; troupe cert issue %s HOST... makes what its hosts need\n", folder_.c_str(),
                folder_.c_str());
    if (const auto hosts = hosts_in(folder_); !hosts.empty())
      std::fprintf(
          stderr,
          "troupe: warning: %s: the certificates of these hosts are of another authority: troupe cert renew %s "
          "%s makes new ones\n",
          folder_.c_str(), folder_.c_str(), hosts.c_str());
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
