// Starts a short job with real launchers: torchrun, mpirun, srun, and `troupe launch` through sshd. Each run must have
// the losses of one process, bit for bit, and leave no process; it is skipped by name if the machine lacks the
// launcher.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/launch/launched.hpp"
#include "tests/launch/local_slurm.hpp"
#include "tests/launch/local_sshd.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(launchers)

using namespace troupe::tests;

namespace {

bool is_missing(const std::string& what) {
  if (what.empty()) return false;
  const bool is_ssh = what.find("ssh") != std::string::npos;
  const std::string package = what == "mpirun" ? "openmpi-bin" : is_ssh ? "openssh-server" : "slurm-wlm";
  say_skipped("a job that " + what + " starts", "it is not there", what == "torchrun" ? "" : package);
  return true;
}

const words for_long = {"--steps", "1000000", "--json"};

/// A job that a hostfile places on this machine and, through a real sshd, on another address of this machine.
struct by_ssh {
  launched job{{"127.0.0.1", "127.0.0.2"}};
  local_sshd sshd{job.folder() / "sshd", "127.0.0.2"};

  by_ssh() { std::ofstream(job.folder() / "hosts") << "127.0.0.1 slots=1\n127.0.0.2 slots=2\nnobody slots=1\n"; }
  [[nodiscard]] words launch(const std::string& output, const words& more = {}) const {
    words out{
        troupe::places::troupe_binary, "launch", "--hostfile", "hosts", "--exclude", "nobody@127.0.0.2:1", "--ssh-port",
        fmt::format("{}", sshd.port())};
    for (const auto& o : sshd.options()) out = out + words{"--ssh-option", o};
    return out + words{"--master-port", fmt::format("{}", free_port())} + launched::job(output, more);
  }
};

/// Returns the number of this user's processes that run in this folder.
size_t programs_in(const std::filesystem::path& folder) {
  size_t out = 0;
  std::error_code e;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", e)) {
    const auto at = std::filesystem::read_symlink(entry.path() / "cwd", e);
    if (e || at != folder) continue;
    const auto program = std::filesystem::read_symlink(entry.path() / "exe", e).filename().string();
    out += !e && program.starts_with("troupe") ? 1U : 0U;
  }
  return out;
}

/// Returns true if the processes in the folder end within 5 s.
bool are_gone(const std::filesystem::path& folder) {
  for (int tries = 0; tries < 100 && programs_in(folder) > 0; ++tries) ::usleep(50'000);
  return programs_in(folder) == 0;
}

/// Returns the path of a torchrun that works, from the installed torch or from `make peer`; empty if there is none.
std::string torchrun() {
  for (const std::string& file :
       {find_program("torchrun"), std::string((std::string(troupe::places::source_dir) + "/.peer/bin/torchrun"))})
    if (!file.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  return {};
}

/// Returns the largest allowed duration of operations that need no waiting. With the address sanitizer, starting a
/// program alone takes seconds.
std::chrono::seconds promptly(int seconds) {
  return std::chrono::seconds(troupe::tests::has_address_sanitizer ? 10 * seconds : seconds);
}

}  // namespace

BOOST_AUTO_TEST_CASE(torchrun_starts_a_job_on_two_machines) {
  if (is_missing(torchrun().empty() ? "torchrun" : "")) return;
  const launched job({host_name()});
  const auto node = [&](int rank, uint16_t port) {
    return words{torchrun(),         "--no-python", "--nnodes",      "2",
                 "--nproc-per-node", "2",           "--node-rank",   fmt::format("{}", rank),
                 "--master-addr",    "127.0.0.1",   "--master-port", fmt::format("{}", port)} +
           launched::train("many");
  };
  const uint16_t port = free_port();
  process second(node(1, port), job.folder());
  const auto first = run(node(0, port), job.folder());
  const auto other = second.end();
  BOOST_TEST(other.code == 0, other.err);
  job.has_the_losses_of_one_process(first, 4);
}

BOOST_AUTO_TEST_CASE(mpirun_starts_a_job_on_one_machine) {
  if (is_missing(find_program("mpirun").empty() ? "mpirun" : "")) return;
  const launched job({});
  const auto did =
      run(words{find_program("mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", "2"} + launched::train("many"),
          job.folder());
  job.has_the_losses_of_one_process(did, 2);
}

BOOST_AUTO_TEST_CASE(srun_starts_a_job_on_two_nodes_and_its_warning_ends_it) {
  if (is_missing(local_slurm::missing())) return;
  const launched job({"n1", "n2"}, fmt::format("  listen: \"127.0.0.1:{}\"\n", free_port()));
  const local_slurm slurm(job.folder() / "slurm");
  const auto srun = [&](const words& more) {
    return slurm.command("srun", words{"-N2", "--ntasks-per-node=1", "--job-name=troupe"} + more);
  };
  job.has_the_losses_of_one_process(run(srun(launched::train("many", {"--set", "cluster.interface=lo"})), job.folder()),
                                    2);

  process warned(
      srun(launched::train("warned", {"--steps", "1000000", "--json", "--set", "checkpoint.every_steps=1000000"})),
      job.folder());
  BOOST_TEST_REQUIRE(warned.wait_for("\"step\":3,"));
  BOOST_TEST(run(slurm.command("scancel", {"--signal=TERM", "--name", "troupe"}), job.folder()).code == 0);
  const auto did = warned.end();
  BOOST_TEST(did.code == 143, did.code << did.err);
  BOOST_TEST(std::filesystem::exists(job.folder() / "warned" / "checkpoints" / "latest"));
  BOOST_TEST(places_in(job.folder()).empty());
}

BOOST_AUTO_TEST_CASE(the_script_for_slurm_runs_as_it_stands) {
  if (is_missing(local_slurm::missing())) return;
  const scratch_folder folder;
  const auto path =
      std::filesystem::path(troupe::places::troupe_binary).parent_path().string() + ":" + std::getenv("PATH");
  for (const char* file : {"job.sh", "train.yaml"})
    std::filesystem::copy_file((std::string(troupe::places::source_dir) + "/examples/slurm/") + std::string(file),
                               folder / file);
  const local_slurm slurm(folder / "slurm");
  const auto did = run(
      words{"/usr/bin/env", "PATH=" + path} +
          slurm.command("sbatch", {"--wait", "job.sh", "--steps", "2", "--set",
                                   fmt::format("cluster.listen=127.0.0.1:{}", free_port()), "--set",
                                   std::string("data.text=") + troupe::places::source_dir + "/examples/corpus.txt"}),
      folder.path());
  std::string said;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("slurm-")) said += scratch_folder::read(entry.path());
  BOOST_TEST(did.code == 0, did.err << said);
  BOOST_TEST(said.find("done after 2 steps") != std::string::npos, said);
  BOOST_TEST(std::filesystem::exists(folder / "certs" / "n2" / "host.key"));
}

BOOST_AUTO_TEST_CASE(a_hostfile_starts_a_job_by_ssh_and_a_signal_ends_all_of_it) {
  if (is_missing(local_sshd::missing())) return;
  const by_ssh x;
  x.job.has_the_losses_of_one_process(run(x.launch("many"), x.job.folder()), 2);
  process stopped(x.launch("stopped", for_long), x.job.folder());
  BOOST_TEST_REQUIRE(stopped.wait_for("\"step\":3,"));
  stopped.send(SIGTERM);
  const auto did = stopped.end();
  BOOST_TEST(did.code == 143, did.code << did.err);
  BOOST_TEST(did.err.find("was killed") == std::string::npos, did.err);
  BOOST_TEST(places_in(x.job.folder()).empty());
}

BOOST_AUTO_TEST_CASE(a_signal_before_the_other_hosts_have_come_ends_all_at_once) {
  if (is_missing(local_sshd::missing())) return;
  const by_ssh x;
  process early(x.launch("early", for_long), x.job.folder());
  BOOST_TEST_REQUIRE(early.wait_for_error("waits for agents on 127.0.0.2"));
  early.send(SIGTERM);
  // The limit is shorter than the time that hosts of a started job are given to end.
  const auto did = early.end(std::chrono::seconds(9));
  BOOST_TEST(did.code == 143, did.code << did.err);
  BOOST_TEST(did.err.find("launched this agent") == std::string::npos, did.err);
  BOOST_TEST(are_gone(x.job.folder()));
}

BOOST_AUTO_TEST_CASE(a_launch_that_is_killed_leaves_no_process_on_any_host) {
  if (is_missing(local_sshd::missing())) return;
  const by_ssh x;
  process killed(x.launch("killed", for_long), x.job.folder());
  BOOST_TEST_REQUIRE(killed.wait_for("\"step\":3,"));
  BOOST_TEST(programs_in(x.job.folder()) >= 4U);  // the processes are two with ranks, the leading one, and an agent
  killed.send(SIGKILL);
  (void)killed.end();
  BOOST_TEST(are_gone(x.job.folder()));
}

BOOST_AUTO_TEST_CASE(a_connection_by_ssh_that_ends_costs_the_job_nothing) {
  if (is_missing(local_sshd::missing())) return;
  const by_ssh x;
  process job(x.launch("kept", for_long), x.job.folder());
  BOOST_TEST_REQUIRE(job.wait_for("\"step\":3,"));
  x.sshd.end_connections();
  BOOST_TEST(job.wait_for_error("127.0.0.2: the connection has ended; its agent continues without it"));
  BOOST_TEST(run({troupe::places::troupe_binary, "stop", "kept"}, x.job.folder()).code == 0);
  const auto did = job.end();
  BOOST_TEST(did.code == 0, did.err);
  BOOST_TEST(did.err.find("0 steps done again") != std::string::npos, did.err);
  BOOST_TEST(are_gone(x.job.folder()));
}

BOOST_AUTO_TEST_CASE(a_host_that_cannot_be_reached_is_named_within_five_seconds) {
  if (is_missing(find_program("ssh").empty() ? "ssh" : "")) return;
  const launched job({"127.0.0.1", "127.0.0.2"});
  std::ofstream(job.folder() / "hosts") << "127.0.0.1 slots=1\n127.0.0.2 slots=1\n";
  const auto begun = std::chrono::steady_clock::now();
  process nobody(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts", "--ssh-port",
                       fmt::format("{}", free_port()), "--master-port", fmt::format("{}", free_port())} +
                     launched::job("many"),
                 job.folder());
  BOOST_TEST(nobody.wait_for_error("127.0.0.2 cannot be reached: ssh: connect to host 127.0.0.2 port"));
  BOOST_TEST((std::chrono::steady_clock::now() - begun < promptly(5)));
  BOOST_TEST(nobody.end().code == 1);
  BOOST_TEST(places_in(job.folder()).empty());
}

BOOST_AUTO_TEST_CASE(a_program_that_a_host_cannot_execute_is_named) {
  const launched job({"127.0.0.1", "127.0.0.2"});
  std::ofstream(job.folder() / "hosts") << "127.0.0.1 slots=1\n127.0.0.2 slots=1\n";
  // The programs of another installation, of which one is a folder; `ssh` is a script that runs its last argument here.
  const auto there = job.folder() / "there", bin = job.folder() / "bin";
  std::filesystem::create_directories(there / "troupe");
  std::filesystem::create_symlink(std::filesystem::path(troupe::places::troupe_binary).parent_path() / "troupe-agent",
                                  there / "troupe-agent");
  std::filesystem::create_directory(bin);
  std::ofstream(bin / "ssh") << "#!/bin/sh\nfor last; do :; done\nexec /bin/sh -c \"$last\"\n";
  std::filesystem::permissions(bin / "ssh", std::filesystem::perms::owner_all);
  const auto did = run(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts", "--program",
                             (there / "troupe").string(), "--master-port", fmt::format("{}", free_port())} +
                           launched::job("many"),
                       job.folder(), [&] { ::setenv("PATH", (bin.string() + ":/usr/bin:/bin").c_str(), 1); });
  BOOST_TEST(did.code != 0, did.out);
  BOOST_TEST(
      did.err.find("127.0.0.2: troupe: error: cannot execute " + (there / "troupe").string()) != std::string::npos,
      did.err);
  BOOST_TEST(places_in(job.folder()).empty());
}

BOOST_AUTO_TEST_CASE(options_of_launch_that_do_nothing_for_this_job_are_refused_by_name) {
  const launched job({}), met({}, "  listen: \"127.0.0.1:4472\"\n"), met_anywhere({}, "  listen: \"0.0.0.0:4472\"\n");
  const std::string idle = " would do nothing here: it is for ";
  const auto refused = [&](const launched& at, const std::string& hosts, const words& options, const std::string& why) {
    std::ofstream(at.folder() / "hosts") << hosts;
    const auto did =
        run(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts"} + options + launched::job("many"),
            at.folder());
    BOOST_TEST(did.code == 2, did.err);
    BOOST_TEST(did.err.find(options[0] + idle + why) != std::string::npos, did.err);
    BOOST_TEST(!std::filesystem::exists(at.folder() / "many"));
  };
  const std::string one = "127.0.0.1 slots=2\n", two = "127.0.0.1 slots=1\n127.0.0.2 slots=1\n";
  for (const words& options :
       {words{"--master-port", "4473"}, words{"--master-addr", "127.0.0.1"}, words{"--program", "/elsewhere/troupe"}})
    refused(job, one, options, "several hosts, and one is left");
  for (const words& options : {words{"--ssh-port", "22"}, words{"--ssh-option", "User=me"}})
    refused(job, one, options, "hosts that ssh reaches");
  for (const launched* at : {&met, &met_anywhere})
    refused(*at, two, {"--master-port", "4473"}, "a file without cluster.listen");
  refused(met, two, {"--master-addr", "127.0.0.3"}, "a file whose cluster.listen does not say");
}

BOOST_AUTO_TEST_CASE(wrong_options_of_train_are_refused_by_name_before_a_host_is_started) {
  const launched job({});
  std::ofstream(job.folder() / "hosts") << "127.0.0.1 slots=2\n";
  const auto refused = [&](const words& more) {
    const auto did =
        run(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts"} + launched::job("wrong", more),
            job.folder());
    BOOST_TEST(did.code == 2, did.err);
    BOOST_TEST(did.err.find("the options of `troupe train`: ") != std::string::npos, did.err);
    BOOST_TEST(did.err.find(more[0]) != std::string::npos, did.err);
    BOOST_TEST(!std::filesystem::exists(job.folder() / "wrong"));
  };
  refused({"--frsh"});
  refused({"--steps", "many"});
}

BOOST_AUTO_TEST_CASE(a_second_agent_of_a_host_is_refused_and_the_first_serves_on) {
  const launched job(
      {"a", "b"},
      fmt::format("  hosts: [{{name: a}}, {{name: b}}]\n  listen: \"127.0.0.1:{}\"\nparallel: {{data: 2}}\n",
                  free_port()));
  const auto as = [&](const char* rank) {
    return words{"/usr/bin/env", "WORLD_SIZE=2", fmt::format("RANK={}", rank)} +
           launched::train("many", {"--steps", "1000000", "--json"});
  };
  process first(as("0"), job.folder());
  process agent(as("1"), job.folder());
  BOOST_TEST_REQUIRE(first.wait_for("\"step\":1,"));
  const auto begun = std::chrono::steady_clock::now();
  const auto second = run(as("1"), job.folder());
  BOOST_TEST(second.code == 1, second.err);
  BOOST_TEST(
      second.err.find("wanted one agent of each host: another one of b is in this job already") != std::string::npos,
      second.err);
  BOOST_TEST((std::chrono::steady_clock::now() - begun < promptly(6)));
  agent.send(SIGTERM);  // a signal to any process of the job stops the whole job
  BOOST_TEST(first.end().code == 143);
  BOOST_TEST(agent.end().code == 143);
}

BOOST_AUTO_TEST_CASE(a_process_of_another_host_that_leads_next_knows_the_job_by_the_name_of_its_file) {
  const launched job({host_name()});
  const uint16_t port = free_port();
  const auto as = [&](int rank) {
    return words{"/usr/bin/env", "WORLD_SIZE=2", fmt::format("RANK={}", rank), "MASTER_ADDR=127.0.0.1",
                 fmt::format("MASTER_PORT={}", port)} +
           launched::train("many", {"--steps", "200", "--json"});
  };
  process first(as(0), job.folder());
  process agent(as(1), job.folder());
  BOOST_TEST_REQUIRE(first.wait_for("\"step\":3,"));
  // A pause must end when another process leads the job.
  BOOST_TEST_REQUIRE(run({troupe::places::troupe_binary, "pause", "many"}, job.folder()).code == 0);
  ::kill(places_in(job.folder()).at(0), SIGKILL);
  const auto did = first.end(), other = agent.end();
  BOOST_TEST(did.code == 0, did.err);
  BOOST_TEST(other.code == 0, other.err);
  BOOST_TEST(scratch_folder::read(job.folder() / "many" / "report.html").find("<title>job: done") != std::string::npos);
  for (const auto* const text : {&did.err, &other.err, &other.out})
    BOOST_TEST(text->find("/proc/") == std::string::npos, *text);
}

BOOST_AUTO_TEST_CASE(an_agent_whose_copy_of_the_file_says_something_else_is_refused_and_the_job_awaits_a_good_one) {
  const launched job({"a", "b"},
                     fmt::format("  job: english\n  hosts: [{{name: a}}, {{name: b}}]\n  listen: \"127.0.0.1:{}\"\n"
                                 "parallel: {{data: 2}}\n",
                                 free_port()));
  const auto as = [&](const char* rank, const words& more) {
    return words{"/usr/bin/env", "WORLD_SIZE=2", fmt::format("RANK={}", rank)} + launched::train("many", more);
  };
  process first(as("0", {}), job.folder());
  BOOST_TEST_REQUIRE(first.wait_for_error("waits for agents on b"));
  const auto refused = [&](const words& more, const std::string& what) {
    const auto did = run(as("1", more), job.folder());
    BOOST_TEST((did.code != 0 && did.err.find(what) != std::string::npos), did.err);
  };
  refused({"--set", "seed=2"}, "wanted an agent with the first host's configuration, ");
  refused({"--set", "cluster.job=french"}, "wanted an agent of the job 'english', got one of the job 'french' on b");
  process agent(as("1", {"--steps", "3"}), job.folder());  // the run must have the 4 steps that the first host sets
  const auto did = first.end();
  BOOST_TEST(did.code == 0, did.err);
  BOOST_TEST(agent.end().code == 0);
  BOOST_TEST(steps_of(job.folder() / "many").size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_job_of_two_machines_resumes_from_the_checkpoint_of_its_command_line) {
  const launched job({host_name()});
  // The tag belongs to a path that is missing in the file, so the file is valid only together with --resume.
  std::ofstream(job.folder() / "tagged.yaml")
      << scratch_folder::read(job.folder() / "job.yaml") << "checkpoint: {load: {tag: newest}}\n";
  const words alone{"--quiet", "--set", "parallel.data=2", "--set", "cluster.processes=one"};
  BOOST_TEST_REQUIRE(
      run(launched::train("earlier", alone + words{"--set", "checkpoint.every_steps=4"}), job.folder()).code == 0);
  const auto resumed = [&](const std::string& output, const words& more) {
    return words{troupe::places::troupe_binary, "train", "tagged.yaml", "--set", "output=" + output, "--steps", "6"} +
           more;
  };
  const words from{"--resume", "earlier"};
  BOOST_TEST_REQUIRE(run(resumed("one", alone + from), job.folder()).code == 0);
  const auto wanted = steps_of(job.folder() / "one");
  BOOST_TEST(wanted.size() == 2U);
  const auto has_the_same_losses = [&](const finished& did, const std::string& output) {
    BOOST_TEST(did.code == 0, did.err);
    const auto different = first_difference(wanted, steps_of(job.folder() / output));
    BOOST_TEST(!different, different.value_or(""));
  };
  const uint16_t port = free_port();
  const auto as = [&](int rank) {
    return words{"/usr/bin/env", "WORLD_SIZE=2", fmt::format("RANK={}", rank), "MASTER_ADDR=127.0.0.1",
                 fmt::format("MASTER_PORT={}", port)} +
           resumed("many", from);
  };
  process agent(as(1), job.folder());
  has_the_same_losses(run(as(0), job.folder()), "many");
  BOOST_TEST(agent.end().code == 0);
  const words processes{"--set", "parallel.data=2", "--set", "cluster.processes=ranks"};
  has_the_same_losses(run(resumed("processes", from + processes), job.folder()), "processes");
}

BOOST_AUTO_TEST_CASE(what_no_launcher_would_say_is_refused_with_the_sentence_that_mends_it) {
  const launched job({"a", "b", host_name()});
  const auto refused = [&](const words& variables, const words& more = {}) {
    const auto did = run(words{"/usr/bin/env"} + variables + launched::train("many", more), job.folder());
    BOOST_TEST(did.code == 2, did.err);
    return did.err;
  };
  const auto says = [](const std::string& text, const std::string& what) {
    BOOST_TEST(text.find(what) != std::string::npos, text);
  };
  says(refused({"RANK=7", "WORLD_SIZE=4"}), "RANK: wanted less than WORLD_SIZE, which is 4, got 7");
  says(refused({"RANK=1", "WORLD_SIZE=2"}), "wanted HOST:PORT of the first host, or MASTER_ADDR and MASTER_PORT");
  const words two{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4400"};
  says(refused({"RANK=0", "WORLD_SIZE=4"}, {"--set", "parallel.data=2"}), "wanted degrees for 4 ranks");
  says(refused(two, {"--set", "cluster.hosts=[{name: a}]", "--set", "cluster.listen=127.0.0.1:4400"}),
       "cluster.hosts: wanted 2 hosts, as the launcher says, got 1");
  says(refused({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4400"},
               {"--set", "cluster.interface=nothing0"}),
       "cluster.interface: wanted a network interface of this machine that has an address, got nothing0, which "
       "does not exist");
  std::ofstream(job.folder() / "hosts") << "a slots=2\nb slots=0\n";
  const auto zero =
      run(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts"} + launched::job("many"), job.folder());
  BOOST_TEST(zero.code == 2);
  says(zero.err, "hosts:2: wanted 1 to 65536 slots for b, got 0");
}

BOOST_AUTO_TEST_SUITE_END()
