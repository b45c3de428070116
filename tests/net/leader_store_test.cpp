// Tests the store that records which host leads a job: the same suite for a store in memory and for a real etcd; and
// servers that are not an etcd, do not answer, or contain other data.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <thread>

#include "core/clock.hpp"
#include "core/store_place.hpp"
#include "net/address.hpp"
#include "net/etcd_store.hpp"
#include "net/http_request.hpp"
#include "tests/check_ok.hpp"
#include "tests/etcd_server.hpp"
#include "tests/fakes/leader_store.hpp"
#include "tests/net/hosts.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(leader_store)

using namespace troupe;
using namespace troupe::net;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

constexpr uint32_t lease_s = 3;

/// A store and the functions that control its clock.
struct any_store {
  std::function<std::unique_ptr<leader_store>()> open;
  std::function<void(int64_t)> pass;  ///< makes the given number of seconds pass
  std::function<void()> expire;       ///< waits until the lease of the leader has expired
};

lead host(const std::string& name) { return {name, name + ":4400", "authority"}; }

using enum leader_store::part;

leader_store::standing take(leader_store& from, const lead& me, leader_store::part of = continues) {
  auto got = check_ok(from.take(me, of));
  return *got;
}
std::optional<lead> leader(leader_store& from) {
  auto got = check_ok(from.read());
  return got->who;
}
bool refreshed(leader_store& from) {
  auto got = check_ok(from.refresh());
  return *got;
}

/// Checks the behaviour that every store must have.
void play(const any_store& x) {
  const auto a = x.open(), b = x.open();
  BOOST_TEST((leader(*a) == std::nullopt));
  BOOST_TEST(!refreshed(*a));  // host a has not taken the lease yet
  const auto first = take(*a, host("a")), second = take(*b, host("b")), again = take(*a, host("a"));
  BOOST_TEST((first.is_mine && first.who == host("a")));
  BOOST_TEST((!second.is_mine && second.who == host("a")));
  BOOST_TEST((!again.is_mine && again.who == host("a")));  // the call takes nothing, because host a already leads
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    x.pass(1);
    BOOST_TEST(refreshed(*a));
  }
  BOOST_TEST((leader(*b) == host("a")));
  x.expire();  // the lease expires because no host refreshes it
  BOOST_TEST(take(*b, host("b")).is_mine);
  BOOST_TEST(!refreshed(*a));
  BOOST_TEST((leader(*a) == host("b")));
  // Host a no longer has the lease, so giving it up must not affect b.
  BOOST_TEST(a->give_up(std::nullopt).has_value());
  BOOST_TEST(refreshed(*b));
  BOOST_TEST(b->give_up(std::nullopt).has_value());
  BOOST_TEST((leader(*a) == std::nullopt));
  BOOST_TEST(take(*a, host("a"), begins).is_mine);
  BOOST_TEST(a->give_up(130).has_value());
  const auto late = take(*b, host("b"));  // models a host that was cut off when the job ended
  BOOST_TEST((!late.is_mine && !late.who && late.over == 130 && b->read()->over == 130));
  BOOST_TEST(take(*b, host("b"), begins).is_mine);  // a later job with the same name can begin
  BOOST_TEST((b->read()->over == std::nullopt && leader(*a) == host("b")));
  BOOST_TEST(b->give_up(std::nullopt).has_value());
  BOOST_TEST((a->read()->over == std::nullopt));
}

/// Returns the etcd that all tests of this program use; null if none is installed.
const tests::etcd_server* etcd() {
  if (!tests::etcd_server::is_installed()) {
    troupe::tests::say_skipped("leader store in a real etcd", "no etcd is installed", "etcd-server");
    return nullptr;
  }
  static const tests::etcd_server one;
  return &one;
}
std::unique_ptr<leader_store> opened(const std::string& store, const std::string& job) {
  auto got = check_ok(open_etcd(store, job, lease_s, {}));
  return std::move(*got);
}

any_store real(const tests::etcd_server& server, const std::string& job) {
  const auto open = [store = server.store(), job] { return opened(store, job); };
  return {open, [](int64_t s) { std::this_thread::sleep_for(std::chrono::seconds(s)); },
          [look = std::shared_ptr<leader_store>(open())] {
            for (int i = 0; i < 600 && leader(*look); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }};
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_host_leads_at_a_time_in_a_store_of_memory) {
  const tests::fake_etcd store;
  play({[&] { return store.open(lease_s); }, [&](int64_t s) { store.pass(s); }, [&] { store.pass(lease_s + 1); }});
}

/// Checks that a host that was replaced as the leader can no longer record the end of the job.
void play_late_end(const any_store& x) {
  const auto a = x.open(), b = x.open();
  BOOST_TEST(take(*a, host("a"), begins).is_mine);
  x.expire();
  BOOST_TEST(take(*b, host("b")).is_mine);
  BOOST_TEST(a->give_up(7).has_value());
  const auto now = check_ok(b->read());
  BOOST_TEST((now->who == host("b") && !now->over));
  BOOST_TEST(b->give_up(3).has_value());
  BOOST_TEST((b->read()->over == 3));
}

BOOST_AUTO_TEST_CASE(only_who_leads_says_that_the_job_is_over) {
  const tests::fake_etcd store;
  play_late_end(
      {[&] { return store.open(lease_s); }, [&](int64_t s) { store.pass(s); }, [&] { store.pass(lease_s + 1); }});
  const auto* const server = etcd();
  if (server == nullptr) return;
  play_late_end(real(*server, "late end"));
}

BOOST_AUTO_TEST_CASE(one_host_leads_at_a_time_in_a_real_etcd) {
  const auto* const server = etcd();
  if (server == nullptr) return;
  play(real(*server, "english 'text' \xc3\xa4"));
}

BOOST_AUTO_TEST_CASE(an_etcd_that_wants_certificates_is_asked_with_those_of_the_job_and_by_nobody_else) {
  if (etcd() == nullptr) return;
  const auto files = [](const char* job, const char* host) { return identity_files_in(hosts().path() / job / host); };
  const tests::etcd_server server({.tls = (hosts().path() / "ours/127.0.0.1").string()});
  const auto ours = check_ok(open_etcd(server.store(), "encrypted", lease_s, files("ours", "node1")));
  BOOST_TEST(take(**ours, host("a")).is_mine);
  BOOST_TEST(refreshed(**ours));
  BOOST_TEST((leader(**ours) == host("a")));
  const auto refused = [&](const std::string& store, const identity_files& as) {
    const auto got = check_ok(open_etcd(store, "encrypted", lease_s, as));
    const auto read = (*got)->read();
    BOOST_TEST_REQUIRE(!read);
    return read.error().text;
  };
  const std::string place = server.store().substr(std::string("etcds://").size());
  BOOST_TEST(refused(server.store(), files("theirs", "node1")).find("is of another authority") != std::string::npos);
  const auto other = refused("etcds://localhost" + place.substr(place.find(':')), files("ours", "node1"));
  BOOST_TEST(other.find("wanted one for 'localhost'") != std::string::npos, other);
  BOOST_TEST(!refused("etcd://" + place, {}).empty());
  check_failed(open_etcd(server.store(), "encrypted", lease_s, {}), core::error_kind::bad_input);
  const tests::etcd_server plain;
  BOOST_TEST(
      !refused("etcds://" + plain.store().substr(std::string("etcd://").size()), files("ours", "node1")).empty());
}

BOOST_AUTO_TEST_CASE(jobs_of_other_names_do_not_meet_and_a_member_that_is_gone_is_passed_over) {
  const auto* const server = etcd();
  if (server == nullptr) return;
  const std::string gone = "etcd://127.0.0.1:1,";
  const auto a = opened(gone + server->store().substr(7), "one"), b = opened(server->store(), "another");
  BOOST_TEST(take(*a, host("a")).is_mine);
  BOOST_TEST(take(*b, host("b")).is_mine);
  BOOST_TEST((leader(*a) == host("a")));
}

BOOST_AUTO_TEST_CASE(a_key_that_another_program_has_written_is_named) {
  const tests::fake_etcd made_up;
  made_up.write("hello");
  check_failed(made_up.open(lease_s)->read(), "got hello");
  const auto* const server = etcd();
  if (server == nullptr) return;
  const auto to = core::read_store(server->store())->members.front();
  const auto put = post({addresses_of(to)->front(), to}, "/v3/kv/put",
                        // Base64 of the key /troupe/taken/leader and of the value hello.
                        R"({"key":"L3Ryb3VwZS90YWtlbi9sZWFkZXI=","value":"aGVsbG8="})",
                        core::now_ns() + store_answer_ns_max);
  BOOST_TEST_REQUIRE(put.has_value());
  const auto store = opened(server->store(), "taken");
  for (const auto& why : {store->read().error(), store->take(host("a"), begins).error()}) {
    BOOST_TEST((why.kind == core::error_kind::mismatch));
    BOOST_TEST(why.text == server->store() +
                               ": wanted the leader of a Troupe job in the key /troupe/taken/leader, "
                               "got `hello`: another program has written it, so set another cluster.job");
  }
}

BOOST_AUTO_TEST_CASE(a_store_that_is_not_there_or_silent_is_an_error_in_time) {
  const auto nobody = opened("etcd://127.0.0.1:1,127.0.0.1:2", "job")->read();
  BOOST_TEST_REQUIRE(!nobody);
  BOOST_TEST((nobody.error().kind == core::error_kind::peer_lost));
  BOOST_TEST(nobody.error().text.starts_with("no member of etcd://127.0.0.1:1,127.0.0.1:2 answers: 127.0.0.1:1: "));
  const int silent = *listen_at(*numeric_address("127.0.0.1", 0));  // opens a port that accepts no connection
  const std::string at = "etcd://" + address_of(silent)->text();
  const int64_t begun = core::now_ns();
  const auto none = opened(at, "job")->read();
  ::close(silent);
  BOOST_TEST(!none);
  BOOST_TEST(none.error().text.find("no answer in time") != std::string::npos, none.error().text);
  BOOST_TEST(core::now_ns() - begun < 3 * store_answer_ns_max);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_no_etcd_is_an_error_whatever_it_says) {
  for (const std::string& said :
       {std::string("SSH-2.0-OpenSSH\r\n"), std::string("HTTP/1.1 200 OK\r\n\r\n<html>"),
        std::string("HTTP/1.0 500 No\r\n\r\n{\"message\":\"it is full\"}"), std::string("HTTP/1.0 x\r\n\r\n{}"),
        std::string("HTTP/1.0"), std::string(), std::string(http_answer_bytes_max + 1, 'x')}) {
    BOOST_TEST_INFO_SCOPE(said);
    const int listening = *listen_at(*numeric_address("127.0.0.1", 0));
    const std::string at = "etcd://" + address_of(listening)->text();
    std::thread server([&] {
      for (int i = 0; i < 1000; ++i) {
        const int s = accept_from(listening);
        if (s < 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          continue;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // waits until the request has arrived
        char question[4096];
        while (::recv(s, question, sizeof question, MSG_DONTWAIT) > 0) {
        }
        for (size_t sent = 0; sent < said.size();) {
          const ssize_t n = ::send(s, said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
          if (n < 0 && errno != EAGAIN) break;
          if (n > 0) sent += static_cast<size_t>(n);
        }
        ::close(s);
        return;
      }
    });
    const auto got = opened(at, "job")->read();
    server.join();
    ::close(listening);
    BOOST_TEST(!got);
    BOOST_TEST(!got.error().text.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_leader_is_read_as_it_was_written_and_nothing_else_is_one) {
  const lead x{"node-1", "[::1]:4400", "0123"};
  BOOST_TEST((read_lead(as_text(x)) == x));
  for (const char* text : {"", "{}", "[]", "7", "{\"host\":\"a\"}", R"({"host":1,"address":"a:1","authority":""})"})
    BOOST_TEST_CONTEXT(text) BOOST_TEST(!read_lead(text));
  BOOST_TEST(key_of_leader("english") == "/troupe/english/leader");
  BOOST_TEST((lease_s_for(0.5) == 2U && lease_s_for(2.1) == 3U && lease_s_for(60) == 60U));
}

BOOST_AUTO_TEST_CASE(places_of_a_store_are_read_and_others_are_none) {
  const auto three = core::read_store("etcd://a:2379,[::1]:1,10.0.0.3:65535");
  BOOST_TEST_REQUIRE(three.has_value());
  BOOST_TEST((three->members.size() == 3 && three->members[1].host == "::1" && three->members[2].port == 65535));
  BOOST_TEST((!three->is_encrypted && core::read_store("etcds://a:1")->is_encrypted));
  for (const char* text : {"", "etcd://", "etcd://a", "etcd:a:1", "http://a:1", "consul://a:1", "etcd://a:1,",
                           "etcd://a:1/", "etcd://a b:1", "etcd://a\r\nX:1", "etcd://a:0"})
    BOOST_TEST(!core::read_store(text), text);
  std::string ten = "etcd://a:1";
  for (int i = 0; i < 9; ++i) ten += ",a:1";
  BOOST_TEST(!core::read_store(ten));
}

BOOST_AUTO_TEST_SUITE_END()
