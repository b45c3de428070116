// A run's page: its server, who may see it, and what lies at which path. Owns the rules of access; the state is
// page_state.hpp's, the files of the page are page.html, page.css and page.js beside this one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/page/http_server.hpp"
#include "apps/page/page_texts.hpp"
#include "config/sections/cluster_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

class page {
 public:
  using asking = std::function<page_moment()>;

  /// For `cluster.page` that is not empty. `now` is asked on the page's thread. Both outlive it. Errors: bad_input for
  /// a port that is taken, a token or key that others can read.
  static core::result<std::unique_ptr<page>> open(const config::cluster_section& c, const page_state& state,
                                                  asking now);

  /// "http://127.0.0.1:8080/"
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  page(const page_state& state, asking now) : state_(state), now_(std::move(now)) {}
  [[nodiscard]] http_answer answer(const http_request& r) const;
  [[nodiscard]] bool is_host_known(const std::string& host) const;
  /// Whether the visitor has shown the token, or the cookie that it was given for it.
  [[nodiscard]] bool is_admitted(const http_request& r) const;

  const page_state& state_;
  asking now_;
  std::string bound_host_, token_, cookie_name_, cookie_, address_;
  bool is_secure_ = false, is_any_host_ = false;
  std::unique_ptr<http_server> server_;  // last: it calls the others
};

/// A file of the page: "page.html", "page.css", "page.js", "page.svg"; empty for other names.
std::string_view page_file(std::string_view name);

}  // namespace troupe::apps
