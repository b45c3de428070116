// Tests checkpoint.use_node_local_storage: machines without a shared file system write a checkpoint together and read
// each other's files, whichever of them leads. The machines are processes that mount different folders at the same
// path. Requires mount namespaces; skipped by name if the machine allows none, neither to root nor to other users.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <memory>
#include <optional>

#include "tests/free_port.hpp"
#include "tests/machines/host_commands.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(node_local)

using namespace troupe::tests;

namespace {

constexpr const char* shared_name = "out";

/// Returns the prefix of a command that runs in a mount namespace of its own; empty if this machine allows none.
std::vector<std::string> own_mounts() {
  for (const std::string how : {"unshare --mount", "unshare --mount --map-root-user"})
    if (std::system((how + " sh -c 'mount --bind /tmp /tmp' 2>/dev/null").c_str()) == 0)
      return how.ends_with("user") ? std::vector<std::string>{"/usr/bin/env", "unshare", "--mount", "--map-root-user"}
                                   : std::vector<std::string>{"/usr/bin/env", "unshare", "--mount"};
  return {};
}

class machines {
 public:
  machines(std::filesystem::path folder, std::vector<std::string> mounts)
      : folder_(std::move(folder)), mounts_(std::move(mounts)) {
    for (const char* name : {shared_name, "a", "b", "c"}) std::filesystem::create_directories(folder_ / name);
    make_certificates(troupe::places::troupe_binary, folder_, {"a", "b", "c"});
  }

  /// Trains on `hosts`, of which the first leads. `agents_end` receives the agents' exit codes and outputs.
  [[nodiscard]] finished train(const std::vector<std::string>& hosts, uint32_t steps, bool is_local = true,
                               std::vector<finished>* agents_end = nullptr,
                               const std::vector<std::string>& more = {}) const {
    const std::string place = fmt::format("127.0.0.1:{}", free_port());
    const std::string& first_host = hosts.front();
    std::string list;
    for (const auto& h : hosts) list += fmt::format("{}{{name: {}}}", list.empty() ? "" : ", ", h);
    std::vector<std::string> command{troupe::places::troupe_binary, "train",  troupe::places::cluster_job, "--steps",
                                     fmt::to_string(steps),         "--quiet"};
    set_keys(command, {fmt::format("output={}", (folder_ / shared_name).string()), "telemetry.json_lines=true",
                       fmt::format("cluster.hosts=[{}]", list), fmt::format("parallel.data={}", hosts.size()),
                       "checkpoint.every_steps=5", "checkpoint.keep_last=2",
                       fmt::format("checkpoint.use_node_local_storage={}", is_local)});
    set_keys(command, first_host_keys(place, first_host));
    command.insert(command.end(), more.begin(), more.end());
    process first(on(first_host, command), folder_);
    std::vector<std::unique_ptr<process>> agents;
    for (size_t i = 1; i < hosts.size(); ++i)
      agents.push_back(std::make_unique<process>(
          on(hosts[i], agent_command(troupe::places::troupe_binary, place, first_host, "certs/" + hosts[i])), folder_));
    auto out = first.end(std::chrono::seconds(120));
    for (auto& a : agents) {
      auto did = a->end();
      if (agents_end != nullptr) agents_end->push_back(std::move(did));
    }
    return out;
  }
  [[nodiscard]] std::filesystem::path disk_of(const char* host) const { return folder_ / host; }

 private:
  [[nodiscard]] std::vector<std::string> on(const std::string& host, const std::vector<std::string>& command) const {
    auto out = mounts_;
    for (const std::string& x :
         {std::string("sh"), std::string("-c"), std::string(R"(mount --bind "$0" "$1" && shift && exec "$@")"),
          (folder_ / host).string(), (folder_ / shared_name).string()})
      out.push_back(x);
    out.insert(out.end(), command.begin(), command.end());
    return out;
  }

  std::filesystem::path folder_;
  std::vector<std::string> mounts_;
};

size_t num_shards(const std::filesystem::path& disk) {
  size_t out = 0;
  for (const auto& x : std::filesystem::recursive_directory_iterator(disk / "checkpoints"))
    out += x.path().filename().string().starts_with("shard-");
  return out;
}

/// Returns machines with folders below `folder`; nothing, which is said, if this machine allows no mount namespaces.
std::optional<machines> machines_in(const scratch_folder& folder) {
  const auto mounts = own_mounts();
  if (!mounts.empty()) return machines(folder.path(), mounts);
  troupe::tests::say_skipped("disks of single hosts", "no mount namespaces are allowed here");
  return std::nullopt;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_machine_keeps_its_files_and_any_of_them_resumes_with_those_of_the_others) {
  const scratch_folder folder;
  const auto made = machines_in(folder);
  if (!made) return;
  const machines& all = *made;
  const auto begun = all.train({"a", "b"}, 10);
  BOOST_TEST_REQUIRE(begun.code == 0, begun.err);
  // Each disk must have one file of each of the two checkpoints.
  BOOST_TEST(num_shards(all.disk_of("a")) == 2U);
  BOOST_TEST(num_shards(all.disk_of("b")) == 2U);
  for (const char* host : {"a", "b"}) {
    BOOST_TEST_INFO_SCOPE(host);
    const auto seen =
        run({troupe::places::troupe_binary, "checkpoint", "verify", (all.disk_of(host) / "checkpoints").string()},
            folder.path());
    BOOST_TEST(seen.code == 0, seen.err);
    const bool is_a = *host == 'a';
    for (const std::string& words :
         {std::string("step-00000010: good as far as it is on this machine: "),
          fmt::format("not read, on the disk of host {}: shard-0000{}.bin\n", is_a ? "b" : "a", is_a ? 1 : 0)})
      BOOST_TEST_CONTEXT(words) BOOST_TEST(seen.out.find(words) != std::string::npos, seen.out);
  }

  const auto missing = all.train({"a", "c"}, 15);
  BOOST_TEST(missing.code != 0);
  BOOST_TEST(missing.err.find("shard-00001.bin' is on none of the disks of a, c "
                              "(checkpoint.use_node_local_storage): host b wrote it") != std::string::npos,
             missing.err);

  // At first the other host leads, which has copies of the manifest; then a third host joins, which has no file.
  const auto swapped = all.train({"b", "a"}, 15);
  BOOST_TEST_REQUIRE(swapped.code == 0, swapped.err);
  const auto more = all.train({"b", "a", "c"}, 20);
  BOOST_TEST_REQUIRE(more.code == 0, more.err);
  BOOST_TEST(num_shards(all.disk_of("c")) == 1U);
  // No machine keeps files of the removed checkpoints 5 and 10.
  for (const char* host : {"a", "b"}) BOOST_TEST(num_shards(all.disk_of(host)) == 2U);

  const auto alone = run({troupe::places::troupe_binary, "train", troupe::places::cluster_job, "--steps", "15",
                          "--fresh", "--quiet", "--set", "output=alone", "--set", "telemetry.json_lines=true", "--set",
                          "parallel.data=2", "--set", "cluster.hosts=[]", "--set", "cluster.processes=one"},
                         folder.path());
  BOOST_TEST_REQUIRE(alone.code == 0, alone.err);
  auto wanted = steps_of(folder / "alone"), got = steps_of(all.disk_of("b"));
  std::erase_if(wanted, [](const auto& x) { return x.first <= 10; });
  std::erase_if(got, [](const auto& x) { return x.first <= 10 || x.first > 15; });
  BOOST_TEST(wanted.size() == 5U);
  const auto different = first_difference(wanted, got);
  BOOST_TEST(!different, different.value_or(""));
}

BOOST_AUTO_TEST_CASE(checkpoints_that_are_set_aside_keep_the_files_of_all_machines) {
  const scratch_folder folder;
  const auto made = machines_in(folder);
  if (!made) return;
  const machines& all = *made;
  const auto begun = all.train({"a", "b"}, 10);
  BOOST_TEST_REQUIRE(begun.code == 0, begun.err);
  const auto fresh = all.train({"a", "b"}, 5, true, nullptr, {"--fresh"});
  BOOST_TEST_REQUIRE(fresh.code == 0, fresh.err);
  const std::string aside = (folder.path() / shared_name / "checkpoints.1").string();
  const auto resumed = all.train({"a", "b"}, 15, true, nullptr, {"--resume", aside});
  BOOST_TEST(resumed.code == 0, resumed.err);
  BOOST_TEST(steps_of(all.disk_of("a")).rbegin()->first == 15U);
}

BOOST_AUTO_TEST_CASE(a_first_host_that_never_had_the_newest_checkpoint_of_another_host_is_refused) {
  const scratch_folder folder;
  const auto made = machines_in(folder);
  if (!made) return;
  const machines& all = *made;
  const auto begun = all.train({"a", "b"}, 10);
  BOOST_TEST_REQUIRE(begun.code == 0, begun.err);
  for (const bool is_fresh : {false, true}) {
    BOOST_TEST_INFO_SCOPE("--fresh: " << is_fresh);
    const auto refused = all.train({"c", "b"}, 5, true, nullptr,
                                   is_fresh ? std::vector<std::string>{"--fresh"} : std::vector<std::string>{});
    BOOST_TEST(refused.code == 2);
    BOOST_TEST(refused.err.find("host b has a checkpoint of step 10 in '") != std::string::npos, refused.err);
    BOOST_TEST(num_shards(all.disk_of("b")) == 2U);
  }
  const auto resumed = all.train({"a", "b"}, 15);
  BOOST_TEST(resumed.code == 0, resumed.err);
}

BOOST_AUTO_TEST_CASE(an_output_that_is_not_shared_is_refused_by_name_unless_each_machine_may_have_its_own) {
  const scratch_folder folder;
  const auto made = machines_in(folder);
  if (!made) return;
  const machines& all = *made;
  std::vector<finished> agents;
  const auto refused = all.train({"a", "b"}, 10, false, &agents);
  BOOST_TEST(refused.code == 2);
  const std::string wanted = fmt::format("process 1 on b: output: wanted one folder of all hosts, '{}', got another",
                                         (folder.path() / shared_name).string());
  BOOST_TEST(refused.err.find("troupe: error: " + wanted) != std::string::npos, refused.err);
  BOOST_TEST(refused.err.find("checkpoint.use_node_local_storage") != std::string::npos, refused.err);
  BOOST_TEST_REQUIRE(agents.size() == 1U);
  BOOST_TEST(agents[0].code == 2);
  BOOST_TEST(agents[0].err.find("troupe agent: the job has ended: " + wanted) != std::string::npos, agents[0].err);
  for (const char* host : {"a", "b"})
    for (const auto& x : std::filesystem::recursive_directory_iterator(all.disk_of(host)))
      BOOST_TEST(!x.path().filename().string().starts_with(".troupe-output-"), x.path());
}

BOOST_AUTO_TEST_CASE(other_names_for_a_checkpoint_that_the_disks_of_machines_hold_are_refused_by_name) {
  const scratch_folder folder;
  const auto made = machines_in(folder);
  if (!made) return;
  const machines& all = *made;
  const auto begun = all.train({"a", "b"}, 5);
  BOOST_TEST_REQUIRE(begun.code == 0, begun.err);
  folder.write("names.yaml", "names: {transformer.wte.weight: other.weight}\n");
  const std::string checkpoints = (folder.path() / shared_name / "checkpoints").string();
  std::vector<finished> agents;
  const auto refused = all.train({"a", "b"}, 10, true, &agents, {"--resume", checkpoints, "--map", "names.yaml"});
  BOOST_TEST(refused.code == 2);
  const std::string wanted = "--map: '" + checkpoints;
  BOOST_TEST(refused.err.find(wanted) != std::string::npos, refused.err);
  BOOST_TEST(refused.err.find("is a checkpoint of Troupe that the disks of several machines hold, which is read by its "
                              "own names: leave out --map") != std::string::npos,
             refused.err);
  BOOST_TEST_REQUIRE(agents.size() == 1U);
  BOOST_TEST(agents[0].code == 2);
  BOOST_TEST(agents[0].err.find(wanted) != std::string::npos, agents[0].err);
  // The refused run must not have trained any further step.
  BOOST_TEST(steps_of(all.disk_of("a")).rbegin()->first == 5U);

  const auto without = all.train({"a", "b"}, 10, true, nullptr, {"--resume", checkpoints});
  BOOST_TEST(without.code == 0, without.err);
  BOOST_TEST(steps_of(all.disk_of("a")).rbegin()->first == 10U);
}

BOOST_AUTO_TEST_SUITE_END()
