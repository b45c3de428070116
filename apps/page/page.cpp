#include "apps/page/page.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include "apps/page/page_access.hpp"
#include "core/host_port.hpp"

namespace troupe::apps {
namespace {

std::string random_text() {
  unsigned char bytes[24] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  std::string out;
  for (const unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

std::string bracketed(const std::string& host) { return host.find(':') == host.npos ? host : "[" + host + "]"; }

}  // namespace

core::result<std::unique_ptr<page>> page::open(const config::cluster_section& c, const page_state& state, asking now) {
  const auto at = config::page_place_of(c.page);
  if (!at) return core::fail(core::error_kind::bad_input, "cluster.page: wanted PORT or HOST:PORT, got " + c.page);
  std::unique_ptr<page> out(new page(state, std::move(now)));
  if (!c.page_token_file.empty()) {
    TROUPE_ASSIGN(auto token, read_page_token(c.page_token_file));
    out->token_ = std::move(token);
    out->cookie_ = random_text();
    // cookies do not distinguish ports, so each run has its own cookie name
    out->cookie_name_ = "troupe_page_" + out->cookie_.substr(0, 8);
    out->cookie_ = random_text();
    if (out->cookie_.empty())
      return core::fail(core::error_kind::io, "cluster.page: the system provides no random bytes");
  }
  TROUPE_ASSIGN(auto channels, page_channels(c, *at));
  out->is_secure_ = channels->is_secure();
  out->bound_host_ = host_named(bracketed(at->host));
  out->is_any_host_ = core::is_every_address(at->host);
  TROUPE_ASSIGN(auto server, http_server::open(at->host, at->port, std::move(channels),
                                               [p = out.get()](const http_request& r) { return p->answer(r); }));
  out->server_ = std::move(server);
  out->address_ =
      fmt::format("{}://{}:{}/", out->is_secure_ ? "https" : "http", bracketed(at->host), out->server_->port());
  return out;
}

bool page::is_host_known(const std::string& host) const {
  const std::string asked = host_named(host);
  if (asked.empty()) return false;
  if (asked == "localhost" || asked == "127.0.0.1" || asked == "::1" || asked == bound_host_) return true;
  // A page that listens at every address accepts any host name in requests; its certificate and its token keep
  // strangers away.
  return is_any_host_;
}

bool page::is_admitted(const http_request& r) const {
  if (token_.empty()) return true;
  constexpr std::string_view bearer = "Bearer ";
  if (r.authorization.starts_with(bearer) && same_secret(r.authorization.substr(bearer.size()), token_)) return true;
  const auto shown = value_in(r.cookie, cookie_name_, ';');
  return !shown.empty() && same_secret(shown, cookie_);
}

http_answer page::answer(const http_request& r) const {
  if (!is_host_known(r.host)) return {.status = 403, .body = "wanted a Host that is this page's, got another\n"};
  if (!token_.empty() && r.path == "/" && same_secret(value_in(r.query, "token", '&'), token_))
    return {.status = 303,
            .body = "this way\n",
            .headers = fmt::format("Location: /\r\nSet-Cookie: {}={}; Path=/; HttpOnly; SameSite=Strict{}\r\n",
                                   cookie_name_, cookie_, is_secure_ ? "; Secure" : "")};
  if (!is_admitted(r))
    return {.status = 401,
            .body = "wanted the token: Authorization: Bearer TOKEN, or once ?token=TOKEN after this address\n",
            .headers = "WWW-Authenticate: Bearer\r\n"};
  if (r.path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(page_file("page.html"))};
  if (r.path == "/page.css") return {.type = "text/css; charset=utf-8", .body = std::string(page_file("page.css"))};
  if (r.path == "/page.js")
    return {.type = "text/javascript; charset=utf-8", .body = std::string(page_file("page.js"))};
  if (r.path == "/page.svg") return {.type = "image/svg+xml", .body = std::string(page_file("page.svg"))};
  if (r.path == "/state.json") return {.type = "application/json", .body = page_json(state_.copy(), now_())};
  if (r.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page_metrics(state_.copy(), now_())};
  return {.status = 404, .body = "wanted /, /state.json or /metrics\n"};
}

}  // namespace troupe::apps
