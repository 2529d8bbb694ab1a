// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline

/// A process that was started and waited for.
struct LaunchedProcess {
  let status: Int32
  let milliseconds: Double
  /// The most memory of its own it had at a time (RssAnon), looked at every few milliseconds. Pages
  /// of mapped files are the kernel's cache, and are not in it.
  let peakMegabytes: Double
  /// The most memory it had at a time with such pages (VmHWM).
  let residentMegabytes: Double

  init(_ path: String, _ arguments: [String], output: String) throws {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY, 0)
    var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) }
    defer { for word in words { free(word) } }
    words.append(nil)
    var pid: pid_t = 0
    let start = bench_now()
    let code = posix_spawn(&pid, path, &actions, nil, words, environ)
    guard code == 0 else { throw BenchFailure("\(path) cannot be started: error \(code).") }
    var ended: Int32 = 0
    var peak = 0
    var resident = 0
    // Whoever is looked at takes long; whoever is timed to the millisecond is only waited for.
    let isLookedAt = ["import", "export"].contains(arguments.first)
    while isLookedAt, waitpid(pid, &ended, WNOHANG) == 0 {
      let text = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
      peak = max(peak, Self.kilobytes("RssAnon:", text))
      resident = max(resident, Self.kilobytes("VmHWM:", text))
      usleep(5000)
    }
    if !isLookedAt { while waitpid(pid, &ended, 0) < 0 && errno == EINTR {} }
    milliseconds = Double(bench_now() - start) / 1e6
    status = ended & 0x7F == 0 ? (ended >> 8) & 0xFF : 128 + (ended & 0x7F)
    peakMegabytes = Double(peak) / 1024
    residentMegabytes = Double(resident) / 1024
  }

  private static func kilobytes(_ name: String, _ text: String) -> Int {
    for line in text.split(separator: "\n") where line.hasPrefix(name) {
      return Int(line.split(whereSeparator: { $0 == " " || $0 == "\t" })[1]) ?? 0
    }
    return 0
  }
}
