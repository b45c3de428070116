// The part of job_config with the processes of a job and the reaction to the loss of one: the section `cluster`, except
// for its keys of memory limits, swapping and offloading, which are fields of job_config itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// Value of `cluster.processes`: one, ranks, or a number.
enum class process_choice : uint8_t { one, ranks, number };

/// Values of `cluster.on_loss`: whether a job continues after the loss of a process, or stops.
enum class loss_policy : uint8_t { recover, stop };

struct restarts_section {  ///< configuration section `cluster.restarts`
  uint64_t max = 10;       ///< number of losses of processes from which a run recovers; the next loss ends the run
  /// Key: backoff; seconds before a lost process is started again, doubled for each earlier loss of it, at most 30 s.
  double backoff_s = 0.5;
  bool processes = true;   ///< true: a lost process is started again
};

struct cluster_host {  ///< an item of the list `cluster.hosts`
  std::string name;    ///< name of the host in its certificate
  uint64_t ranks = 1;  ///< number of ranks of the host; their numbers are consecutive
  /// Address on which the host's processes receive data; empty: the address from which the host connects to the first
  /// host.
  std::string bind;
  /// key: spare; true: the host waits without ranks and replaces a host that is lost or replaced; `ranks` is the number
  /// of ranks that it can have
  bool is_spare = false;
};

struct tls_section {  ///< configuration section `cluster.tls`; absolute paths
  std::filesystem::path ca, certificate, key;

  /// Returns the files of one machine: `{host}` in the paths is replaced by its name.
  [[nodiscard]] tls_section of(const std::string& host) const;
};

struct page_tls_section {  ///< section `cluster.page_tls`; absolute paths; empty: the files of `cluster.tls`
  std::filesystem::path certificate, key;
};

/// Address at which a run serves its status page over HTTP: the parsed value of the configuration key `cluster.page`.
struct page_place {
  std::string host;   ///< address or host name on which the page listens, without brackets
  uint16_t port = 0;  ///< port number; 0: the system chooses

  /// True if only this machine can connect.
  [[nodiscard]] bool is_loopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }
};
/// Parses the value of `cluster.page`: "8080", "0.0.0.0:8080" or "[::1]:8080"; returns nullopt for any other form.
std::optional<page_place> page_place_of(const std::string& text);

struct cluster_section {  ///< configuration section `cluster`
  process_choice choice = process_choice::one;
  uint32_t number = 0;      ///< number of processes for process_choice::number, a divisor of the ranks
  double lost_after_s = 5;  ///< key: lost_after; seconds without a message after which a process is lost
  uint32_t min_ranks = 1;   ///< least number of ranks with which a job continues after a loss; with fewer it ends
  uint32_t spares = 0;      ///< number of spare processes, which have no ranks until they replace a lost process
  loss_policy on_loss = loss_policy::recover;
  restarts_section restarts;
  /// Name of the job, which an agent (`troupe agent` on another host) must present; empty: agents present none.
  std::string job;
  /// Machines of the job; the first one accepts the agents of the others; empty: only this machine.
  std::vector<cluster_host> hosts;
  std::string listen;               ///< HOST:PORT at which the first host accepts the agents of the other hosts
  /// etcd://HOST:PORT[,HOST:PORT...], the etcd service that records which host leads the job; empty: the first host
  /// leads, and no other host can take over
  std::string store;
  /// Network interface on whose address each host accepts connections; empty: by `listen` and `bind`.
  std::string interface;
  tls_section tls;
  std::string page;  ///< PORT or HOST:PORT at which the run serves its status web page; empty: no page
  page_tls_section page_tls;
  /// path of a file with the page's token, absolute; empty: everyone who can connect can read the page
  std::filesystem::path page_token_file;

  /// Returns the number of processes for this many ranks; 1 also if a single separate process has all of them.
  [[nodiscard]] uint32_t processes_for(uint32_t ranks) const {
    return choice == process_choice::one ? 1 : choice == process_choice::ranks ? ranks : number;
  }
  /// True if ranks run in processes other than the one that a user starts, and may be lost.
  [[nodiscard]] bool is_on() const { return choice != process_choice::one; }
};

}  // namespace troupe::config
