#include "net/etcd_store.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/cells.hpp"
#include "core/clock.hpp"
#include "core/json_text.hpp"
#include "core/store_place.hpp"
#include "net/http_request.hpp"

namespace troupe::net {
namespace {

using json = nlohmann::json;

std::string to_base64(const std::string& bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                    static_cast<int>(bytes.size()));
  return out;
}

std::string from_base64(const std::string& text) {
  std::string out(text.size() / 4 * 3, '\0');
  const int n = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                  reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0) return {};
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(static_cast<size_t>(n) - padding);
  return out;
}

/// Returns field `key` of a JSON object; null if the object does not have it.
const json& field(const json& of, const char* key) {
  static const json none;
  if (!of.is_object()) return none;
  const auto at = of.find(key);
  return at == of.end() ? none : *at;
}
/// Returns the text of a JSON string, empty for any other value; etcd writes 64-bit numbers as strings.
std::string text_of(const json& x) { return x.is_string() ? x.get<std::string>() : std::string(); }

class etcd_store final : public leader_store {
 public:
  etcd_store(std::string name, std::vector<core::host_port> members, std::optional<identity> shown,
             const std::string& job, uint32_t lease_s)
      : name_(std::move(name)),
        key_(key_of_leader(job)),
        end_key_(key_of_end(job)),
        lease_s_(lease_s),
        shown_(std::move(shown)) {
    for (auto& m : members) members_.push_back({std::move(m), {}});
    // Errors are ignored, because ask() looks the names up again if no etcd server answers.
    for (auto& m : members_) (void)look_up(m);
  }

  core::result<standing> take(const lead& me, part of) override {
    TROUPE_ASSIGN(const auto granted, ask("/v3/lease/grant", {{"TTL", lease_s_}}));
    const std::string lease = text_of(field(granted, "ID"));
    if (lease.empty()) return core::fail(strange("a lease", granted));
    json free = json::array({is_absent(key_)}), then = json::array();
    if (of == part::continues) free.push_back(is_absent(end_key_));
    then.push_back({{"request_put", {{"key", to_base64(key_)}, {"value", to_base64(as_text(me))}, {"lease", lease}}}});
    if (of == part::begins) then.push_back({{"request_delete_range", {{"key", to_base64(end_key_)}}}});
    const auto done = ask("/v3/kv/txn", {{"compare", free}, {"success", then}, {"failure", reads()}});
    if (done && field(*done, "succeeded") == true) {
      lease_ = lease;
      me_ = me;
      return standing{me, std::nullopt, true};
    }
    (void)ask("/v3/lease/revoke", {{"ID", lease}});  // if this fails, the lease expires by itself
    if (!done) return core::fail(done.error());
    return standing_in(*done);
  }

  core::result<bool> refresh() override {
    if (lease_.empty()) return false;
    TROUPE_ASSIGN(const auto kept, ask("/v3/lease/keepalive", {{"ID", lease_}}));
    const std::string left = text_of(field(field(kept, "result"), "TTL"));
    const bool stands = !left.empty() && left != "0";
    if (!stands) lease_.clear();
    return stands;
  }

  core::result<standing> read() override {
    TROUPE_ASSIGN(const auto said, ask("/v3/kv/txn", {{"success", reads()}}));
    return standing_in(said);
  }

  core::result<void> give_up(std::optional<int> over) override {
    if (lease_.empty()) return {};
    if (over) {
      json mine = json::array(), told = json::array();
      mine.push_back(
          {{"key", to_base64(key_)}, {"target", "VALUE"}, {"result", "EQUAL"}, {"value", to_base64(as_text(me_))}});
      told.push_back({{"request_put", {{"key", to_base64(end_key_)}, {"value", to_base64(fmt::to_string(*over))}}}});
      TROUPE_TRY(ask("/v3/kv/txn", {{"compare", mine}, {"success", told}}));
    }
    TROUPE_TRY(ask("/v3/lease/revoke", {{"ID", std::exchange(lease_, {})}}));
    return {};
  }

 private:
  struct member {
    core::host_port at;
    std::vector<address> addresses;  ///< addresses from the last successful look-up of the etcd server's name
  };

  [[nodiscard]] core::error strange(const char* wanted, const json& got) const {
    return {error_kind::mismatch, name_ + ": wanted " + wanted + ", got `" + got.dump().substr(0, 200) + "`"};
  }

  static json is_absent(const std::string& key) {
    return {{"key", to_base64(key)}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}};
  }
  [[nodiscard]] json reads() const {
    json out = json::array();
    for (const auto* key : {&key_, &end_key_}) out.push_back({{"request_range", {{"key", to_base64(*key)}}}});
    return out;
  }

  /// Returns the leader and the exit code in etcd's answer to the request that `reads` returns.
  [[nodiscard]] core::result<standing> standing_in(const json& said) const {
    const json& answers = field(said, "responses");
    if (!answers.is_array() || answers.size() != 2) return core::fail(strange("the leader of the job", said));
    standing out;
    if (const auto value = value_in(answers[0])) {
      out.who = read_lead(*value);
      if (!out.who)
        return core::fail(error_kind::mismatch, name_ + ": wanted the leader of a Troupe job in the key " + key_ +
                                                    ", got `" + value->substr(0, 100) +
                                                    "`: another program has written it, so set another cluster.job");
    }
    if (const auto value = value_in(answers[1])) {
      int code = 0;
      if (core::read_number(*value, code)) out.over = code;
    }
    return out;
  }
  static std::optional<std::string> value_in(const json& answer) {
    const json& all = field(field(answer, "response_range"), "kvs");
    if (!all.is_array() || all.empty()) return std::nullopt;
    return from_base64(text_of(field(all.front(), "value")));
  }

  /// Sends a request to the etcd servers in turn, starting with the one that answered last. Names are looked up only if
  /// no known address answers, because a look-up may take long. A 404 counts as an answer: the requested key is absent.
  core::result<json> ask(const char* path, const json& what) {
    const std::string text = what.dump();
    std::vector<std::string> why(members_.size(), "it has no address");
    for (const bool looks_up : {false, true})
      for (size_t i = 0; i < members_.size(); ++i) {
        const size_t which = (last_ + i) % members_.size();
        if (looks_up) {
          const auto is_elsewhere = look_up(members_[which]);
          if (!is_elsewhere) why[which] = is_elsewhere.error().text;
          if (!is_elsewhere || !*is_elsewhere) continue;
        }
        const auto got = ask(members_[which], path, text);
        if (got) {
          last_ = which;
          return got;
        }
        if (!members_[which].addresses.empty()) why[which] = got.error().text;
      }
    std::string all;
    for (size_t i = 0; i < members_.size(); ++i) {
      const size_t which = (last_ + i) % members_.size();
      all +=
          (all.empty() ? "" : "; ") + place_text(members_[which].at.host, members_[which].at.port) + ": " + why[which];
    }
    return core::fail(error_kind::peer_lost, "no member of " + name_ + " answers: " + all);
  }

  /// Looks up the addresses of the etcd server `of`. True if they differ from the known addresses.
  static core::result<bool> look_up(member& of) {
    TROUPE_ASSIGN(auto found, addresses_of(of.at));
    const auto same = [](const address& a, const address& b) { return a.text() == b.text(); };
    if (std::ranges::equal(found, of.addresses, same)) return false;
    of.addresses = std::move(found);
    return true;
  }

  core::result<json> ask(const member& of, const char* path, const std::string& what) {
    core::error last{error_kind::peer_lost, "it has no address"};
    for (const auto& a : of.addresses) {
      const auto answer =
          post({a, of.at, shown_ ? &*shown_ : nullptr}, path, what, core::now_ns() + store_answer_ns_max);
      if (!answer) {
        last = answer.error();
        continue;
      }
      auto body = core::parse_json(answer->body);
      if ((answer->status == 200 || answer->status == 404) && body && body->is_object()) return std::move(*body);
      last = {error_kind::peer_lost,
              fmt::format("wanted the answer of etcd 3.4 or later to {}, got status {}: {}", path, answer->status,
                          body ? text_of(field(*body, "message")) : answer->body.substr(0, 100))};
    }
    return core::fail(last);
  }

  std::string name_, key_, end_key_;
  uint32_t lease_s_;
  std::optional<identity> shown_;  ///< identity of this host for TLS; none: connections are plain
  std::vector<member> members_;
  size_t last_ = 0;
  std::string lease_;  ///< etcd's number of this host's lease; empty: no lease
  lead me_;            ///< this host's entry as leader, valid while it has the lease
};

}  // namespace

core::result<std::unique_ptr<leader_store>> open_etcd(const std::string& store, const std::string& job,
                                                      uint32_t lease_s, const identity_files& me) {
  auto place = core::read_store(store);
  if (!place)
    return core::fail(
        error_kind::bad_input,
        "a store: wanted etcd://HOST:PORT or etcd://HOST:PORT,HOST:PORT (etcds:// for TLS), got `" + store + "`");
  std::optional<identity> who;
  if (place->is_encrypted) {
    TROUPE_ASSIGN(auto loaded, identity::load(me));
    who = std::move(loaded);
  }
  return std::make_unique<etcd_store>(store, std::move(place->members), std::move(who), job, lease_s);
}

}  // namespace troupe::net
