// Owns the access rules and the paths of a run's page, and its server. Leaves the state to page_state.hpp, and the
// content to page.html, page.css and page.js in this folder.
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

  /// Opens the page for a `cluster.page` that is not empty. Calls `now` on the page's thread. `state` and `now` outlive
  /// the page. Errors: bad_input for a port in use, or a token or key that other users can read.
  static core::result<std::unique_ptr<page>> open(const config::cluster_section& c, const page_state& state,
                                                  asking now);

  /// Returns the address, such as "http://127.0.0.1:8080/".
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  page(const page_state& state, asking now) : state_(state), now_(std::move(now)) {}
  [[nodiscard]] http_answer answer(const http_request& r) const;
  [[nodiscard]] bool is_host_known(const std::string& host) const;
  /// True if the request contains the token, or the cookie that the page set after an earlier request with the token;
  /// always true for a page without a token.
  [[nodiscard]] bool is_admitted(const http_request& r) const;

  const page_state& state_;
  asking now_;
  std::string bound_host_, token_, cookie_name_, cookie_, address_;
  bool is_secure_ = false, is_any_host_ = false;
  std::unique_ptr<http_server> server_;  // server of the page; last member, because its thread uses the others
};

/// Returns the content of a file of the page: "page.html", "page.css", "page.js", "page.svg"; empty for other names.
std::string_view page_file(std::string_view name);

}  // namespace troupe::apps
