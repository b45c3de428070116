#include "apps/page/page_access.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "apps/page/http_server.hpp"

namespace troupe::apps {
namespace {

/// Limits of a token in bytes; short ones can be guessed.
constexpr size_t token_bytes_min = 16, token_bytes_max = 512;

}  // namespace

core::result<std::string> read_page_token(const std::filesystem::path& file) {
  constexpr const char* key = "cluster.page_token_file";
  TROUPE_TRY(check_private(file, key));
  std::ifstream in(file, std::ios::binary);
  std::string out(token_bytes_max + 3, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(in.gcount()));
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r' || out.back() == ' ')) out.pop_back();
  const bool fits =
      out.size() >= token_bytes_min && out.size() <= token_bytes_max &&
      out.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") == std::string::npos;
  if (fits) return out;
  return core::fail(
      core::error_kind::bad_input,
      fmt::format("{}: wanted {} to {} letters, digits and -._~ in {}, got {} bytes; openssl rand -hex 24 "
                  "makes one",
                  key, token_bytes_min, token_bytes_max, file.string(), out.size()));
}

core::result<std::unique_ptr<channel_maker>> page_channels(const config::cluster_section& c,
                                                           const config::page_place& at) {
  const bool own = !c.page_tls.key.empty();
  if (!own && at.is_loopback()) return plain_channels();
  const auto host = c.hosts.empty() ? c.tls : c.tls.of(c.hosts.front().name);
  return own ? secure_channels(c.page_tls.certificate, c.page_tls.key) : secure_channels(host.certificate, host.key);
}

core::result<void> check_page(const config::cluster_section& c) {
  const auto at = config::page_place_of(c.page);
  if (!at) return {};
  if (!c.page_token_file.empty()) TROUPE_TRY(read_page_token(c.page_token_file));
  TROUPE_TRY(page_channels(c, *at));
  TROUPE_ASSIGN(const auto socket, listen_at(at->host, at->port));
  ::close(socket);
  return {};
}

}  // namespace troupe::apps
