// Runs `troupe doctor --cluster` on three hosts in network namespaces with an agent on each. The doctor must name a
// host that is missing, a host with another job file and another folder at the output's path, and a slow host. After
// all of this is repaired it must find nothing, and the agents that it has examined must then serve the job. Usage:
// doctor TROUPE JOB, the program and the job file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/machines/host_commands.hpp"
#include "tests/machines/hosts.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"
#include "tests/survive/job_of_processes.hpp"

using namespace troupe::tests;

namespace {

const std::string place = hosts::address(0) + ":4400";
constexpr const char* names[] = {"a", "b", "c"};

using words = std::vector<std::string>;

words joined(words x, const words& more) {
  x.insert(x.end(), more.begin(), more.end());
  return x;
}

class tried {
 public:
  tried(std::string troupe, std::string job) : troupe_(std::move(troupe)), job_(std::move(job)) {}

  int operator()() {
    make_certificates(troupe_, folder_.path(), {std::begin(names), std::end(names)});
    std::filesystem::create_directory(folder_ / "runs");
    one_is_missing();
    one_is_odd();
    one_has_a_foreign_address();
    one_is_slow();
    all_fit_and_train();
    return good_ ? 0 : 1;
  }

 private:
  bool expect(bool good, const std::string& what) {
    if (!good) std::fprintf(stderr, "doctor: not seen: %s\n", what.c_str());
    good_ = good_ && good;
    return good;
  }

  [[nodiscard]] words keys() const {
    words out;
    set_keys(out, {fmt::format("output={}/run", (folder_ / "runs").string()), "cluster.job=english"});
    set_keys(out, first_host_keys(place));
    return out;
  }
  std::unique_ptr<process> agent(uint32_t host, const words& more = {}, const std::string& before = {}) {
    words command = agent_command(troupe_, place, "a", fmt::format("certs/{}", names[host]));
    command = joined(joined(command, {"--job", "english"}), more);
    if (!before.empty()) command = joined({"sh", "-c", before + " && exec \"$0\" \"$@\""}, command);
    return std::make_unique<process>(hosts::on(host, command), folder_.path());
  }
  finished doctor(const words& more) {
    return run(hosts::on(0, joined(joined({troupe_, "doctor", "--cluster", job_}, keys()), more)), folder_.path());
  }
  /// Returns the condition and the topic of each finding that is not fine, for example "wrong config of c".
  static words topics(const finished& did) {
    words out;
    const auto x = nlohmann::json::parse(did.out, nullptr, false);
    if (x.is_discarded()) return {"no JSON: " + did.err};
    for (const auto& f : x["findings"])
      if (f["condition"] != "fine")
        out.push_back(fmt::format("{} {}", f["condition"].get<std::string>(), f["topic"].get<std::string>()));
    return out;
  }
  /// Checks the findings except slow pairs of hosts, which a busy machine can have for a moment and which one_is_slow()
  /// tests.
  void expect_topics(const finished& did, int code, const words& wanted) {
    auto got = topics(did);
    std::erase_if(got, [](const std::string& x) { return x.starts_with("poor "); });
    expect(did.code == code && got == wanted,
           fmt::format("{} with {}, got {} with {}", code, fmt::join(wanted, ", "), did.code, fmt::join(got, ", ")));
  }

  void one_is_missing() {
    const auto b = agent(1);
    expect(b->wait_for_error("waits for"), "that b waits for the job");
    expect_topics(doctor({"--json", "--wait", "5"}), 1, {"wrong host c"});
  }
  void one_is_odd() {
    const auto b = agent(1);
    const auto c = agent(2, {"--config", job_, "--set", "seed=2"}, "mount -t tmpfs elsewhere runs");
    expect_topics(doctor({"--json"}), 1, {"wrong config of c", "wrong output of c"});
  }
  void one_has_a_foreign_address() {
    const auto b = agent(1), c = agent(2);
    const words file = {"--json", "--set", "cluster.hosts=[{name: a}, {name: b, bind: 198.51.100.77}, {name: c}]"};
    expect_topics(doctor(file), 1, {"wrong address of b"});
  }
  void one_is_slow() {
    const auto b = agent(1), c = agent(2);
    network_.slow(2, 20'000'000);
    const auto did = doctor({"--json"});  // on a busy machine the doctor may also report a slow pair
    const auto got = topics(did);
    expect(did.code == 0 && std::ranges::find(got, "poor network of c") != got.end(),
           fmt::format("poor network of c, got {}", fmt::join(got, ", ")));
    network_.slow(2, 0);
  }
  void all_fit_and_train() {
    const auto b = agent(1, joined({"--config", job_}, keys())), c = agent(2);
    const auto did = doctor({});
    std::printf("%s", did.out.c_str());
    expect(did.code == 0 && did.out.ends_with("3 hosts fit together\n"), "that all fit: " + did.out + did.err);
    for (const auto& a : {b.get(), c.get()})
      expect(a->wait_for_error("was examined; waits for the job"), "that the agents wait again");
    const auto trained = run(
        hosts::on(0, joined(joined({troupe_, "train", job_, "--steps", "3", "--quiet"}, keys()), {})), folder_.path());
    expect(trained.code == 0, "the job: " + trained.err);
    for (const auto& a : {b.get(), c.get()}) expect(a->end().code == 0, "a good end of the agents");
  }

  std::string troupe_, job_;
  const scratch_folder folder_;
  const hosts network_{3};
  bool good_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "doctor TROUPE JOB\n");
    return 2;
  }
  std::string why;
  if (!enter_network(argc, argv, why)) {
    troupe::tests::say_skipped("the doctor of a cluster (cluster_doctor)", "no hosts in network namespaces: " + why);
    return 77;
  }
  return tried(argv[1], argv[2])();
}
