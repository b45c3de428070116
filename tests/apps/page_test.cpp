// Tests a run that serves a web page: the content of the page, its state and metrics, which requests are refused, and
// that no client delays the run.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "apps/page/http_request.hpp"
#include "apps/page/http_server.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(page)

using namespace troupe;
using namespace troupe::tests;
using nlohmann::json;

namespace {

const std::string paged_run =
    replaced(replaced(smallest, "steps: 6", "steps: 100000"), "{data: 2}", "{data: 2}\ncluster: {page: 0}");

/// Shell command that creates a key and a self-signed certificate.
const std::string make_certificate =
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 2 "
    "-keyout k.pem -out c.pem 2>openssl.log";

int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
  ::close(fd);
  return -1;
}

/// Completes a TLS handshake and closes the connection while bytes from the server are unread, so that the kernel of
/// this side sends a reset.
void visit_rudely(uint16_t port) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  const int fd = connect_to(port);
  BOOST_REQUIRE(fd >= 0);
  SSL_set_fd(ssl.get(), fd);
  BOOST_TEST(SSL_connect(ssl.get()) == 1);
  ::close(fd);
}

/// Sends these bytes and returns the server's answer; empty if there is none.
std::string told(uint16_t port, const std::string& bytes, bool ends = false) {
  const int fd = connect_to(port);
  if (fd < 0) return {};
  (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (ends) ::shutdown(fd, SHUT_WR);
  std::string out;
  char buffer[8192];
  for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;) out.append(buffer, static_cast<size_t>(n));
  ::close(fd);
  return out;
}

std::string get(uint16_t port, const std::string& path, const std::string& headers = "Host: localhost\r\n") {
  return told(port, "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n");
}
std::string body_of(const std::string& answer) {
  const auto at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}
int status_of(const std::string& answer) { return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0; }

struct shown_run {
  command_folder f;
  process run;
  uint16_t port = 0;

  explicit shown_run(const std::string& yaml = paged_run, const std::string& token = {})
      : f(yaml), run({"/bin/sh", "-c", prepared(token)}, f.folder.path()) {
    BOOST_REQUIRE(run.wait_for("\"step\":3,"));
    const std::string status = f.troupe({"status", "out", "--json"}).out;
    const std::string address = json::parse(status)["page"];
    port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    BOOST_REQUIRE(port > 0);
  }
  static std::string prepared(const std::string& token) {
    const std::string begin = token.empty() ? "" : "umask 077; echo >token " + token + "; ";
    return begin + "exec " + troupe::places::troupe_binary + " train job.yaml --json";
  }
};

/// Parses the text format of the metrics strictly (HELP and TYPE before values, families not interleaved, names, labels
/// and numbers), and returns each sample.
std::map<std::string, double> strictly_read(const std::string& text) {
  static const std::regex head("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
  static const std::regex value(
      "([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\.)*\"(,[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]"
      "|"
      "\\\\.)*\")*\\})? (NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?)");
  std::map<std::string, double> out;
  std::set<std::string> ended;
  std::string name, type;
  BOOST_TEST((!text.empty() && text.back() == '\n'));
  std::istringstream lines(text);
  std::smatch m;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, m, head)) {
      if (m[1] == "HELP") {
        if (!name.empty()) ended.insert(name);
        name = m[2];
        BOOST_TEST(!ended.contains(name), line);
        type.clear();
      } else {
        BOOST_TEST(m[2] == name, line);
        type = m[3];
        BOOST_TEST((type == "gauge" || type == "counter"), line);
        BOOST_TEST(name.ends_with("_total") == (type == "counter"), line);
      }
      continue;
    }
    BOOST_TEST_REQUIRE(std::regex_match(line, m, value), line);
    BOOST_TEST((m[1] == name && !type.empty()), line);
    BOOST_TEST(out.emplace(std::string(m[1]) + std::string(m[2]), std::strtod(m[6].str().c_str(), nullptr)).second,
               line);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_shows_its_page_its_state_and_its_metrics) {
  shown_run r;
  const auto page = get(r.port, "/");
  BOOST_TEST(status_of(page) == 200);
  for (const char* header : {"Cache-Control: no-store", "Content-Security-Policy: default-src 'self'",
                             "X-Content-Type-Options: nosniff", "Content-Type: text/html"})
    BOOST_TEST(has(page, header), header);
  for (const char* file : {"/page.js", "/page.css", "/page.svg"}) BOOST_TEST(status_of(get(r.port, file)) == 200, file);
  BOOST_TEST(!has(page, "http://"));  // the page loads nothing from other servers
  const auto state = json::parse(body_of(get(r.port, "/state.json")));
  BOOST_TEST(state["phase"] == "training");
  BOOST_TEST(state["step"].get<uint64_t>() >= 3U);
  BOOST_TEST(state["last"]["loss"].get<double>() > 0);
  BOOST_TEST(state["curves"]["loss"].size() >= 3U);
  BOOST_TEST(state["memory"]["ranks"].size() == 2U);
  BOOST_TEST(state["ranks"].size() == 2U);
  BOOST_REQUIRE(!state["lanes"].empty());
  BOOST_TEST(state["lanes"].size() <= 4U);
  for (const auto& step : state["lanes"]) {
    BOOST_TEST(step["ranks"].size() == 2U);
    for (const auto& rank : step["ranks"])
      for (const auto& span : rank["spans"])
        BOOST_TEST((span[1].get<double>() >= 0 &&
                    span[1].get<double>() + span[2].get<double>() <= step["length_us"].get<double>() * 1.001));
  }
  const auto text = body_of(get(r.port, "/metrics"));
  const auto samples = strictly_read(text);
  BOOST_TEST(samples.at("troupe_step") >= 3);
  BOOST_TEST(samples.at("troupe_loss{unit=\"nats/byte\"}") > 0);
  BOOST_TEST(samples.at("troupe_phase{phase=\"training\"}") == 1);
  for (const char* name :
       {"troupe_tokens_total", "troupe_tokens_per_second", "troupe_step_seconds", "troupe_learning_rate",
        "troupe_gradient_norm", "troupe_loss_scale", "troupe_terms_total", "troupe_steps_again_total",
        "troupe_lost_seconds_total", "troupe_checkpoints_total", "troupe_process_peak_bytes",
        "troupe_step_phase_seconds{phase=\"forward\"}", "troupe_lane_busy_ratio{lane=\"compute\"}",
        "troupe_memory_bytes{rank=\"1\",tier=\"memory\",owner=\"moments\"}"})
    BOOST_TEST(samples.contains(name), name);
  if (std::filesystem::exists("/usr/bin/promtool")) {
    r.f.folder.write("metrics.txt", text);
    const auto told = run({"/bin/sh", "-c", "exec promtool check metrics < metrics.txt"}, r.f.folder.path());
    BOOST_TEST(told.code == 0, told.out + told.err);
  } else {
    troupe::tests::say_skipped("metrics of the page", "no promtool is installed", "prometheus");
  }
  if (std::filesystem::exists("/usr/bin/chromium")) {
    const auto seen = run({"/usr/bin/chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                           "--user-data-dir=" + (r.f.folder / "browser").string(), "--virtual-time-budget=3000",
                           "--timeout=8000", "--dump-dom", fmt::format("http://localhost:{}/", r.port)},
                          r.f.folder.path());
    BOOST_TEST(std::regex_search(seen.out, std::regex("<dt>loss, nats/byte</dt><dd>[0-9.]+</dd>")), seen.out);
    BOOST_TEST(has(seen.out, "<polyline"));
    BOOST_TEST(has(seen.out, "lane-compute"));
  } else {
    troupe::tests::say_skipped("the page in a browser", "no chromium is installed", "chromium");
  }
  BOOST_TEST(r.f.troupe({"stop", "out"}).code == 0);
  BOOST_TEST(r.run.end().code == 0);
  BOOST_TEST(connect_to(r.port) < 0);  // the port must be closed
}

BOOST_AUTO_TEST_CASE(strangers_and_hostile_bytes_are_refused_while_the_run_goes_on) {
  shown_run r;
  BOOST_TEST(status_of(get(r.port, "/", "Host: evil.example\r\n")) == 403);
  BOOST_TEST(status_of(get(r.port, "/", "")) == 403);
  for (const char* host : {"localhost:80@evil.example", "localhost:evil", "[::1]evil.example", "[::1", "localhost/evil",
                           "localhost evil", "", "localhost:80:80"})
    BOOST_TEST(status_of(get(r.port, "/", std::string("Host: ") + host + "\r\n")) == 403, host);
  for (const char* host : {"localhost:80", "LOCALHOST", "[::1]:1", "127.0.0.1:"})
    BOOST_TEST(status_of(get(r.port, "/", std::string("Host: ") + host + "\r\n")) == 200, host);
  BOOST_TEST(status_of(get(r.port, "/", "Host: localhost\r\nHost: evil.example\r\n")) == 400);
  BOOST_TEST(status_of(told(r.port, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")) == 405);
  BOOST_TEST(status_of(told(r.port, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")) == 413);
  for (const char* path : {"/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/page.js/..", "/job.yaml"})
    BOOST_TEST(status_of(get(r.port, path)) == 404, path);
  BOOST_TEST(status_of(told(r.port, "GET /" + std::string(9000, 'a'))) == 431);
  BOOST_TEST(status_of(told(r.port, "GET / HTTP/1.1\r\n" + std::string(5000, 'a'), true)) == 0);
  std::mt19937 random(1);  // NOLINT: a fixed seed, so that every test run sends the same bytes
  for (int i = 0; i < 1000; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    std::string bytes = i % 2 == 0 ? "GET / HTTP/1.1\r\nHost: localhost\r\n" : "";
    const size_t more = random() % 300;
    for (size_t n = 0; n < more; ++n) bytes += static_cast<char>(random() % 256);
    const auto answer = told(r.port, bytes + "\r\n\r\n", true);
    BOOST_TEST((answer.empty() || status_of(answer) >= 200));
  }
  // Connections that send nothing must have no effect: other clients are served, the number of descriptors is bounded,
  // and training continues.
  std::vector<int> idle;
  for (int i = 0; i < 900; ++i) idle.push_back(connect_to(r.port));
  const auto before = json::parse(body_of(get(r.port, "/state.json")))["step"].get<uint64_t>();
  for (int i = 0; i < 3000; ++i) {
    ::usleep(20'000);
    if (json::parse(body_of(get(r.port, "/state.json")))["step"].get<uint64_t>() > before + 3) break;
  }
  BOOST_TEST(json::parse(body_of(get(r.port, "/state.json")))["step"].get<uint64_t>() > before + 3);
  for (const int fd : idle) ::close(fd);
  r.run.send(SIGINT);
  BOOST_TEST(r.run.end().code == 130);
}

BOOST_AUTO_TEST_CASE(a_token_is_wanted_where_the_page_has_one) {
  const std::string token = "0123456789abcdef0123456789abcdef";
  shown_run r(replaced(paged_run, "{page: 0}", "{page: 0, page_token_file: token}"), token);
  const std::string host = "Host: localhost\r\n";
  BOOST_TEST(status_of(get(r.port, "/")) == 401);
  BOOST_TEST(status_of(get(r.port, "/metrics", host + "Authorization: Bearer wrong\r\n")) == 401);
  BOOST_TEST(status_of(get(r.port, "/metrics", host + "Authorization: Bearer " + token + "\r\n")) == 200);
  BOOST_TEST(status_of(get(r.port, "/state.json?token=" + token)) == 401);
  const auto admitted = get(r.port, "/?token=" + token);
  BOOST_TEST(status_of(admitted) == 303);
  BOOST_TEST(has(admitted, "HttpOnly; SameSite=Strict"), admitted);
  const auto at = admitted.find("Set-Cookie: ") + 12;
  const std::string cookie = admitted.substr(at, admitted.find(';', at) - at);
  BOOST_TEST(!has(cookie, token));
  BOOST_TEST(status_of(get(r.port, "/state.json", host + "Cookie: other=1; " + cookie + "\r\n")) == 200);
  BOOST_TEST(status_of(get(r.port, "/state.json", host + "Cookie: " + cookie + "0\r\n")) == 401);
  r.run.send(SIGINT);
  BOOST_TEST(r.run.end().code == 130);
}

BOOST_AUTO_TEST_CASE(beyond_loopback_a_page_is_served_through_tls_alone) {
  const std::string token = "0123456789abcdef0123456789abcdef";
  const std::string keys = "{page: '0.0.0.0:0', page_token_file: token, page_tls: {certificate: c.pem, key: k.pem}}";
  shown_run r(replaced(paged_run, "{page: 0}", keys), token + "; " + make_certificate);
  const auto through_tls = [&](const std::string& path, const std::string& headers) {
    return run({"/bin/sh", "-c",
                fmt::format("printf 'GET {} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n{}\\r\\n' | openssl s_client -quiet "
                            "-verify_return_error -CAfile c.pem -connect 127.0.0.1:{}",
                            path, headers, r.port)},
               r.f.folder.path())
        .out;
  };
  BOOST_TEST(status_of(through_tls("/", "")) == 401);
  const auto metrics = through_tls("/metrics", "Authorization: Bearer " + token + "\\r\\n");
  BOOST_TEST(status_of(metrics) == 200);
  BOOST_TEST(has(metrics, "troupe_step "));
  BOOST_TEST(has(through_tls("/?token=" + token, ""), "; Secure"));
  // A server with TLS does not answer plain HTTP.
  BOOST_TEST(!has(told(r.port, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), "HTTP/1.1 "));
  for (int i = 0; i < 50; ++i) visit_rudely(r.port);
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(connect_to(r.port));
  BOOST_TEST(status_of(through_tls("/", "")) == 401);
  for (const int fd : idle) ::close(fd);
  r.run.send(SIGINT);
  BOOST_TEST(r.run.end().code == 130);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_served_is_refused_before_training) {
  const auto refused = [](const std::string& keys, const std::string& why, bool write_token = false) {
    const command_folder f(replaced(paged_run, "{page: 0}", "{" + keys + "}"));
    // Other users can read the file, so the token must be refused.
    if (write_token) f.folder.write("token", "0123456789abcdef");
    const auto ended = f.troupe({"train", "job.yaml"});
    BOOST_TEST(ended.code == 2, ended.out + ended.err);
    BOOST_TEST(has(ended.err, why), ended.err);
    BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
  };
  auto taken = check_ok(apps::listen_at("127.0.0.1", 0));
  sockaddr_in at{};
  socklen_t size = sizeof at;
  ::getsockname(*taken, reinterpret_cast<sockaddr*>(&at), &size);
  const std::string port = fmt::to_string(ntohs(at.sin_port));
  refused("page: " + port, "another program uses that port");
  refused("page: " + port + ", processes: ranks", "another program uses that port");
  ::close(*taken);
  refused("page: '0.0.0.0:0'", "is not a loopback address");
  refused("page: 70000", "cluster.page");
  refused("page: somewhere", "wanted PORT or HOST:PORT");
  refused("page: 0, page_token_file: token", "chmod 600", true);
}

BOOST_AUTO_TEST_CASE(requests_are_read_as_they_come) {
  using apps::read_http_request;
  const std::string whole = "GET /a?b=c HTTP/1.1\r\nHOST: h\r\nCookie:x=1\r\n\r\n";
  for (size_t n = 0; n < whole.size(); ++n) BOOST_TEST(!read_http_request(whole.substr(0, n)).is_whole, n);
  const auto read = read_http_request(whole);
  BOOST_TEST((read.is_whole && read.refused == 0));
  BOOST_TEST((read.request.path == "/a" && read.request.query == "b=c" && read.request.host == "h" &&
              read.request.cookie == "x=1"));
  for (const char* bad : {"GET\r\n\r\n", "GET a HTTP/1.1\r\n\r\n", "GET / a HTTP/1.1\r\n\r\n", "GET / FTP\r\n\r\n",
                          "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\n bad: x\r\n\r\n", "\x16\x03\x01"})
    BOOST_TEST(read_http_request(bad).refused == 400, bad);
  BOOST_TEST(apps::same_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd"}) BOOST_TEST(!apps::same_secret("abc", other));
}

BOOST_AUTO_TEST_SUITE_END()
