// Opens thousands of connections that do not belong to a job to the ports of that job while it runs. TROUPE_MUTATIONS
// sets their number.
#include <fcntl.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "net/data_frames.hpp"
#include "tests/net/movers.hpp"
#include "tests/net/stranger.hpp"

BOOST_AUTO_TEST_SUITE(hostile)

using namespace troupe;
using namespace troupe::net;

namespace {

namespace fs = std::filesystem;

size_t wanted_cases() {
  const char* given = std::getenv("TROUPE_MUTATIONS");
  return given != nullptr ? std::strtoul(given, nullptr, 10) : 1000;
}

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

/// Waits, at most 5 s, until at most `wanted` descriptors are open; returns the number of open ones.
size_t descriptors_after(size_t wanted) {
  for (int i = 0; i < 500 && open_descriptors() > wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return open_descriptors();
}

void allow_many_descriptors() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

/// Returns the first message of a valid client's TLS handshake.
std::string client_hello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> c(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> s(SSL_new(c.get()), SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(s.get(), BIO_new(BIO_s_mem()), out);
  SSL_connect(s.get());
  char* data = nullptr;
  const long n = BIO_get_mem_data(out, &data);
  return {data, static_cast<size_t>(n)};
}

std::string mutated(std::string bytes, std::mt19937& random) {
  for (size_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, 1 + random() % 40, static_cast<char>(random()));
        break;
      default:
        bytes[at] = static_cast<char>(0xff);
    }
  }
  return bytes;
}

/// Sends requests over a link and receives answers repeatedly, in threads of its own.
class conversation {
 public:
  explicit conversation(linked_hosts& l)
      : asks_([this, &l] { ask(*l.of_b); }), answers_([this, &l] { answer(*l.of_a); }) {}
  ~conversation() { end(); }
  void end() {
    has_asked_ = true;
    if (asks_.joinable()) asks_.join();
    over_ = true;  // ends after the last request was answered
    if (answers_.joinable()) answers_.join();
  }
  [[nodiscard]] uint64_t rounds() const { return rounds_; }
  [[nodiscard]] int64_t longest_ns() const { return longest_ns_; }

 private:
  void ask(tls_link& link) {
    while (!has_asked_) {
      const int64_t begin = core::now_ns();
      if (!link.send({cluster::beat{}, {}})) return;
      if (!next_parcels(link)) return;
      longest_ns_ = std::max<int64_t>(longest_ns_, core::now_ns() - begin);
      ++rounds_;
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  void answer(tls_link& link) {
    while (!over_) {
      if (!is_readable(link.number(), 20)) continue;
      const auto came = link.receive();
      if (!came) return;
      for (size_t i = 0; i < came->size(); ++i) (void)link.send({cluster::beat{}, {}});
    }
  }

  std::atomic<bool> has_asked_{false}, over_{false};
  std::atomic<uint64_t> rounds_{0};
  std::atomic<int64_t> longest_ns_{0};
  std::thread asks_, answers_;
};

/// Opens connections of each hostile kind in turn; some of them stay open for a while during their handshake.
void bother(uint16_t port, size_t cases, uint32_t seed) {
  std::mt19937 random(seed);
  const std::string hello = client_hello();
  std::deque<std::unique_ptr<stranger>> staying;
  for (size_t i = 0; i < cases; ++i) {
    auto s = std::make_unique<stranger>(port, 100, static_cast<uint32_t>(i / 2000));
    switch (i % 6) {
      case 0: {
        std::string bytes(1 + random() % 5000, '\0');
        for (char& c : bytes) c = static_cast<char>(random());
        if (random() % 2 == 0) bytes[0] = '\x16';
        s->say(bytes);
        break;
      }
      case 1:
        s->say(mutated(hello, random));
        break;
      case 2:
        s->say("GET /" + std::string(random() % 3000, 'x') + " HTTP/1.1\r\n\r\n");
        break;
      case 3:
        break;  // closes the connection at once, or sends nothing
      case 4:
        // Sends an incomplete message, whose rest never follows.
        s->say(std::string_view(hello).substr(0, 1 + random() % (hello.size() - 1)));
        break;
      default:
        s->say(hello);
        s->say(mutated(hello, random));
    }
    if (random() % 4 == 0) staying.push_back(std::move(s));
    if (staying.size() > 100) staying.pop_front();
  }
}

/// A process that has the term's secret and sends malformed frames.
class liar {
 public:
  liar(uint16_t port, uint32_t place)
      : socket_(port, 5000, place / 2000), key_(std::make_shared<term_key>(key_of(place))) {
    ::fcntl(socket_.socket(), F_SETFL, O_NONBLOCK);
    tls_ = must(tls_stream::make(must(secret_options_to(key_, 0)), tls_side::connects, socket_.socket(), 64 << 10));
    for (;;) {
      const bool done = must(tls_->handshake());
      (void)tls_->flush();
      if (done) break;
      BOOST_TEST_REQUIRE(is_readable(socket_.socket(), 5000));
    }
  }
  void say(std::string_view bytes) {
    (void)tls_->write(std::as_bytes(std::span(bytes)));
    (void)tls_->flush();
  }
  /// Sends bytes on the socket without encryption, in the middle of the TLS connection.
  void spoil(std::string_view bytes) const { socket_.say(bytes); }

 private:
  stranger socket_;
  std::shared_ptr<const term_key> key_;
  std::unique_ptr<tls_stream> tls_;
};

std::string frame_bytes(data_kind kind, const fabric::transfer_name& name, uint64_t number,
                        const std::string& payload) {
  const data_frame f{kind, static_cast<uint32_t>(payload.size()), name, number};
  return std::string(reinterpret_cast<const char*>(&f), sizeof f) + payload;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_thousand_strangers_at_both_ports_change_nothing_and_leave_nothing) {
  allow_many_descriptors();
  (void)hosts();
  {
    linked_hosts once;  // makes libraries allocate what they keep after their first use
    mesh too(2);
  }
  const size_t before = open_descriptors();
  {
    linked_hosts l;
    mesh m(2);
    conversation talk(l);
    const auto bytes = random_bytes(8 << 20, 5);
    std::vector<std::byte> to(bytes.size());
    const uint16_t control = must(l.b->listen("127.0.0.1", 0));
    const size_t cases = wanted_cases();
    do {  // repeats the test, because on a busy machine all connections may end before the conversation begins
      std::thread other([&] { bother(control, cases, 11); });
      bother(m[1].port(), cases, 12);
      other.join();
    } while (talk.rounds() <= 10);
    talk.end();
    // If a request had to wait for a hostile connection, it would take the 5 s that a handshake is allowed.
    BOOST_TEST(talk.longest_ns() < 4'000'000'000);
    endings ends;
    m[0].receive(1, {1, 1, 1}, to, ends.one());
    m[1].send(0, {1, 1, 1}, bytes, ends.one());
    BOOST_TEST_REQUIRE(ends.wait());
    BOOST_TEST((to == bytes));
    BOOST_TEST(must(l.a->connect("127.0.0.1", control, "node2", ""))->name() == "node2");
  }
  BOOST_TEST(descriptors_after(before) == before);
}

BOOST_AUTO_TEST_CASE(a_thousand_idle_connections_keep_nobody_out) {
  allow_many_descriptors();
  linked_hosts l;
  const uint16_t port = must(l.b->listen("127.0.0.1", 0));
  const size_t before = open_descriptors();
  std::vector<std::unique_ptr<stranger>> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(std::make_unique<stranger>(port));
  const int64_t begin = core::now_ns();
  BOOST_TEST(must(l.a->connect("127.0.0.1", port, "node2", ""))->name() == "node2");
  BOOST_TEST(core::now_ns() - begin < 4'000'000'000);
  BOOST_TEST(idle.front()->is_closed());
  BOOST_TEST(open_descriptors() < before + 1000 + 300);  // the oldest connections must have been closed
  BOOST_TEST_REQUIRE(l.of_b->send({cluster::beat{}, {}}).has_value());
  BOOST_TEST(next_parcels(*l.of_a).has_value());
}

BOOST_AUTO_TEST_CASE(frames_that_lie_end_their_connection_and_touch_no_memory_but_what_was_given) {
  allow_many_descriptors();
  std::mt19937 random(3);
  const auto honest = must(tls_mover::open({key_of(1), "127.0.0.1"}));
  constexpr size_t guard = 4096, length = 5000;
  const size_t cases = std::max<size_t>(wanted_cases() / 2, 100);
  size_t ended_well = 0;
  auto mover = must(tls_mover::open({key_of(0), "127.0.0.1"}));
  made_up_hosts::must(honest->connect({{0, {"127.0.0.1", mover->port()}}}));
  made_up_hosts::must(mover->connect({{1, {}}}));
  for (size_t i = 0; i < cases; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto place = static_cast<uint32_t>(i + 2);
    auto other = std::make_unique<liar>(mover->port(), place);
    made_up_hosts::must(mover->connect({{place, {}}}));
    std::vector<std::byte> memory(guard + length + guard, std::byte{0x5a});
    const fabric::transfer_name name{1, 2, 3};
    endings ends;
    mover->receive(place, name, std::span(memory).subspan(guard, length), ends.one());
    const std::string payload(3000, 'p');
    std::string words = frame_bytes(data_kind::note, {}, 0, "hello") +
                        frame_bytes(data_kind::ready, {9, i, 1}, 77, "") +
                        frame_bytes(data_kind::chunk, name, 0, payload) +
                        frame_bytes(data_kind::chunk, name, 3000, std::string(2000, 'q'));
    const size_t heads[] = {0, 45, 85, 85 + 3040};
    if (i % 8 == 7) {
      other->say(std::string_view(words).substr(0, random() % words.size()));
      other->spoil(mutated(words.substr(0, 500), random));
    } else {
      if (i % 8 != 0) {  // changes a byte of a frame's header; one message in eight gets an arbitrary mutation instead
        words[heads[random() % 4] + random() % sizeof(data_frame)] =
            static_cast<char>(random() % 3 == 0 ? 0xff : random());
      } else {
        words = mutated(words, random);
      }
      other->say(words);
    }
    other.reset();  // ends the connection, unless the malformed frame has ended it
    BOOST_TEST_REQUIRE(ends.wait());
    ended_well += ends.failed() == 0 ? 1 : 0;
    BOOST_TEST((std::all_of(memory.begin(), memory.begin() + guard, [](std::byte b) { return b == std::byte{0x5a}; })));
    BOOST_TEST((std::all_of(memory.end() - guard, memory.end(), [](std::byte b) { return b == std::byte{0x5a}; })));
  }
  BOOST_TEST(ended_well < cases);
  const auto bytes = random_bytes(100'000, 9);
  std::vector<std::byte> to(bytes.size());
  endings ends;
  mover->receive(1, {1, 1, 1}, to, ends.one());
  honest->send(0, {1, 1, 1}, bytes, ends.one());
  BOOST_TEST_REQUIRE(ends.wait());
  BOOST_TEST((to == bytes));
}

BOOST_AUTO_TEST_SUITE_END()
