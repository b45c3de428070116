// Tests the error texts at both ends for each kind of refused connection.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>

#include "tests/net/hosts.hpp"
#include "tests/net/stranger.hpp"

BOOST_AUTO_TEST_SUITE(refusals)

using namespace troupe;
using namespace troupe::net;

namespace {

namespace fs = std::filesystem;

/// An endpoint that listens and stores its messages about refused connections.
class gate {
 public:
  explicit gate(identity me, admission admit = {}) {
    endpoint_setup setup{std::move(me), std::move(admit)};
    setup.on_refused = [this](const core::error& why) {
      const std::lock_guard lock(mutex_);
      said_.push_back(why.text);
      came_.notify_all();
    };
    at_ = must(endpoint::open(std::move(setup)));
    port_ = must(at_->listen("127.0.0.1", 0));
  }
  [[nodiscard]] uint16_t port() const { return port_; }
  /// Returns the next message without its beginning, "a connection was refused: 127.0.0.1:4242: ".
  std::string next_sentence() {
    std::unique_lock lock(mutex_);
    BOOST_TEST_REQUIRE(came_.wait_for(lock, std::chrono::seconds(10), [&] { return !said_.empty(); }));
    std::string out = std::move(said_.front());
    said_.erase(said_.begin());
    const std::string head = "a connection was refused: 127.0.0.1:";
    BOOST_TEST_REQUIRE(out.starts_with(head), out);
    return out.substr(out.find(": ", head.size()) + 2);
  }
  [[nodiscard]] bool has_links() const { return is_readable(at_->number(), 0); }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> said_;
  std::unique_ptr<endpoint> at_;  // declared after the members that its thread uses, so that the thread ends first
  uint16_t port_ = 0;
};

/// Returns the error that a client with the certificate `who` receives when it connects to the endpoint.
std::string refusal_of(const gate& at, identity who, const std::string& wanted = "node1") {
  const auto from = must(endpoint::open({std::move(who)}));
  const auto link = from->connect("127.0.0.1", at.port(), wanted, "hello");
  BOOST_TEST_REQUIRE(!link.has_value());
  BOOST_TEST((link.error().kind == core::error_kind::mismatch));
  const std::string head = fmt::format("127.0.0.1:{}: ", at.port());
  BOOST_TEST_REQUIRE(link.error().text.starts_with(head), link.error().text);
  return link.error().text.substr(head.size());
}

/// Returns an identity whose certificate, of our authority, is valid for five days that begin `begins_in_days` days
/// from now.
identity at_another_time(const tests::scratch_folder& f, const std::string& host, int64_t begins_in_days) {
  fs::copy(hosts().path() / "ours", f.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  made_up_hosts::must(
      issue_certificate(f.path(), host,
                        {.days = 5,
                         .begins_unix_s = static_cast<int64_t>(core::unix_seconds()) + begins_in_days * 86'400,
                         .replaces = true}));
  return must(identity::load(identity_files_in(f / host)));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns the bytes of a hello message, as link_hello.cpp sends it.
std::string hello_bytes(uint16_t version) {
  return std::string("TROUPE") + static_cast<char>(version) + '\0' + '\1' + '\0' + '\0';
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_certificate_of_another_authority_is_refused_by_both) {
  gate g(hosts().of("node1"));
  const std::string received = refusal_of(g, hosts().of("node2", "theirs"));
  BOOST_TEST(
      received ==
      "the certificate for 'node1' is of another authority; wanted one of the authority 'theirs'; it refuses, too: "
      "the certificate for 'node2' is of another authority; wanted one of the authority 'ours'");
  BOOST_TEST(
      g.next_sentence() ==
      "the certificate for 'node2' is of another authority; wanted one of the authority 'ours'; it refuses, too: "
      "the certificate for 'node1' is of another authority; wanted one of the authority 'theirs'");
  BOOST_TEST(!g.has_links());
}

BOOST_AUTO_TEST_CASE(an_authority_of_the_same_name_is_another_one) {
  const tests::scratch_folder f;
  made_up_hosts::must(make_authority(f.path(), "ours"));
  made_up_hosts::must(issue_certificate(f.path(), "node2"));
  gate g(hosts().of("node1"));
  BOOST_TEST(has(refusal_of(g, must(identity::load(identity_files_in(f / "node2")))), "is of another authority"));
  BOOST_TEST(has(g.next_sentence(), "the certificate for 'node2' is of another authority"));
}

BOOST_AUTO_TEST_CASE(a_certificate_that_has_expired_is_refused) {
  const tests::scratch_folder f;
  gate g(hosts().of("node1"));
  const std::string received = refusal_of(g, at_another_time(f, "node2", -10));
  BOOST_TEST(has(received, "it refuses: the certificate for 'node2' expired 20"), received);
  BOOST_TEST(has(received, " UTC; the clock here shows 20"));
  BOOST_TEST(has(g.next_sentence(), "the certificate for 'node2' expired 20"));
  gate late(at_another_time(f, "node1", -10));
  BOOST_TEST(has(refusal_of(late, hosts().of("node2")), "the certificate for 'node1' expired 20"));
  BOOST_TEST(has(late.next_sentence(), "it refuses: the certificate for 'node1' expired 20"));
}

BOOST_AUTO_TEST_CASE(a_certificate_that_is_not_good_yet_is_refused) {
  const tests::scratch_folder f;
  gate g(hosts().of("node1"));
  const std::string received = refusal_of(g, at_another_time(f, "node2", 2));
  BOOST_TEST(has(received, "it refuses: the certificate for 'node2' is valid only from 20"), received);
  BOOST_TEST(has(g.next_sentence(), "the certificate for 'node2' is valid only from 20"));
}

BOOST_AUTO_TEST_CASE(a_certificate_for_another_host_is_refused) {
  gate g(hosts().of("node1"));
  BOOST_TEST(refusal_of(g, hosts().of("node2"), "node3") ==
             "the certificate for 'node1' was shown; wanted one for 'node3'");
  BOOST_TEST(g.next_sentence() == "it refuses: the certificate for 'node1' was shown; wanted one for 'node3'");
  BOOST_TEST(has(refusal_of(g, hosts().of("node2"), "127.0.0.1"), "wanted one for '127.0.0.1'"));
  BOOST_TEST(has(g.next_sentence(), "wanted one for '127.0.0.1'"));
}

BOOST_AUTO_TEST_CASE(whom_the_application_does_not_want_it_refuses_in_its_words) {
  gate g(hosts().of("node1"), [](const std::string& name, const std::string& said) -> core::result<std::string> {
    return core::fail(core::error_kind::mismatch, "'" + name + "' is of job '" + said + "', wanted job 7");
  });
  BOOST_TEST(refusal_of(g, hosts().of("node2")) == "it refuses: 'node2' is of job 'hello', wanted job 7");
  BOOST_TEST(g.next_sentence() == "'node2' is of job 'hello', wanted job 7");
  const auto from = must(endpoint::open({hosts().of("node2")}));
  const auto longer = from->connect("127.0.0.1", g.port(), "node1", std::string(introduction_bytes_max + 1, 'x'));
  BOOST_TEST_REQUIRE(!longer.has_value());
  BOOST_TEST((longer.error().kind == core::error_kind::bad_input));
}

BOOST_AUTO_TEST_CASE(who_shows_no_certificate_is_told_so_and_nothing_else) {
  gate g(hosts().of("node1"));
  stranger s(g.port());
  BOOST_TEST_REQUIRE(s.begin_tls());
  s.say(hello_bytes(1));
  const std::string received = s.hear();
  BOOST_TEST(received.substr(0, 9) == std::string("TROUPE\1\0\0", 9));
  BOOST_TEST(received.substr(11) == "no certificate was shown; wanted one of the authority 'ours'");
  BOOST_TEST(g.next_sentence() == "no certificate was shown; wanted one of the authority 'ours'");
  BOOST_TEST(!g.has_links());
}

BOOST_AUTO_TEST_CASE(who_goes_without_a_word_is_refused_for_its_certificate) {
  gate g(hosts().of("node1"));
  {
    stranger s(g.port());
    BOOST_TEST_REQUIRE(s.begin_tls());
  }
  BOOST_TEST(g.next_sentence() == "no certificate was shown; wanted one of the authority 'ours'");
}

BOOST_AUTO_TEST_CASE(another_version_of_the_protocol_is_refused) {
  gate g(hosts().of("node1"));
  stranger s(g.port());
  BOOST_TEST_REQUIRE(s.begin_tls(hosts().path() / "ours/node2"));
  s.say(hello_bytes(9));
  BOOST_TEST(s.hear() == hello_bytes(1));
  BOOST_TEST(g.next_sentence() ==
             "wanted version 1 of the link protocol, got 9; install the same version of Troupe on all hosts");
  stranger t(g.port());
  BOOST_TEST_REQUIRE(t.begin_tls(hosts().path() / "ours/node2"));
  t.say("GET / HTTP/1.1\r\n\r\n");
  BOOST_TEST(t.hear() == hello_bytes(1));
  BOOST_TEST(g.next_sentence() == "it is not a process of a Troupe job: its first message is no hello of Troupe");
}

BOOST_AUTO_TEST_CASE(an_older_tls_is_refused) {
  gate g(hosts().of("node1"));
  stranger s(g.port());
  BOOST_TEST(!s.begin_tls(hosts().path() / "ours/node2", TLS1_2_VERSION));
  BOOST_TEST(g.next_sentence() == "it requires another version of TLS than 1.3");
}

BOOST_AUTO_TEST_CASE(who_speaks_no_tls_hears_why_in_plain_words) {
  gate g(hosts().of("node1"));
  for (const std::string words : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "hello?\n", "SSH-2.0-OpenSSH_9.2\r\n"}) {
    BOOST_TEST_INFO_SCOPE(words);
    stranger s(g.port());
    s.say(words);
    BOOST_TEST(s.hear() == "troupe: this port speaks TLS 1.3 to processes of its job, and nothing else\r\n");
    BOOST_TEST(g.next_sentence() == "it does not speak TLS");
  }
}

BOOST_AUTO_TEST_CASE(a_port_that_speaks_no_tls_is_named) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  BOOST_TEST_REQUIRE(::bind(listening, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  BOOST_TEST_REQUIRE(::listen(listening, 1) == 0);
  ::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &bytes);
  std::thread other([&] {
    const int s = ::accept(listening, nullptr, nullptr);
    (void)!::send(s, "220 mail.example.org\r\n", 22, 0);
    std::array<char, 4096> received{};
    (void)!::recv(s, received.data(), received.size(), 0);
    ::close(s);
  });
  const auto from = must(endpoint::open({hosts().of("node2")}));
  const auto link = from->connect("127.0.0.1", ntohs(at.sin_port), "node1", "");
  other.join();
  ::close(listening);
  BOOST_TEST_REQUIRE(!link.has_value());
  BOOST_TEST(has(link.error().text, "it does not speak TLS"), link.error().text);
}

BOOST_AUTO_TEST_CASE(silence_ends_after_the_deadline) {
  gate g(hosts().of("node1"));
  const int64_t begin = core::now_ns();
  stranger mute(g.port(), 8000), half(g.port(), 8000);
  BOOST_TEST_REQUIRE(half.begin_tls(hosts().path() / "ours/node2"));
  half.say("TROU");
  BOOST_TEST(g.next_sentence() == "the handshake took longer than 5 s");
  BOOST_TEST(g.next_sentence() == "the handshake took longer than 5 s");
  BOOST_TEST(mute.is_closed());
  BOOST_TEST(core::now_ns() - begin > 4'900'000'000);
  BOOST_TEST(core::now_ns() - begin < 7'000'000'000);
}

BOOST_AUTO_TEST_SUITE_END()
