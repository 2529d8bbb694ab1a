// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

/// The system calls of a scenario, found by running it once.
struct SystemCallSite: Hashable, CustomStringConvertible {
  let name: String
  /// Which call of this name by its thread it is, counted from one.
  let number: Int
  /// For `mmap`: whether a file is mapped, and not memory asked for.
  let isOfFile: Bool

  var description: String { "\(name) \(number)" }

  /// What changes files, locks or what others see of them.
  static let names = [
    "openat", "mkdir", "rename", "unlink", "unlinkat", "rmdir", "pwrite64", "pwritev", "writev",
    "write", "fsync", "fdatasync", "ftruncate", "fallocate", "flock", "fcntl", "mmap", "munmap",
    "close",
  ]

  /// All of them from the victim's first command on.
  static func all(in log: String) throws -> [SystemCallSite] {
    var counts: [Int: [String: Int]] = [:]
    var hasBegun = false
    var seen: Set<SystemCallSite> = []
    var sites: [SystemCallSite] = []
    for call in StraceLog.parse(try Files.contents(of: log)) {
      if call.name == "read" {
        if call.number(0) == 0 { hasBegun = true }
        continue
      }
      counts[call.thread, default: [:]][call.name, default: 0] += 1
      guard hasBegun, names.contains(call.name) else { continue }
      let site = SystemCallSite(
        name: call.name, number: counts[call.thread]![call.name]!,
        isOfFile: call.name == "mmap" && (call.number(4) ?? -1) >= 0)
      if seen.insert(site).inserted { sites.append(site) }
    }
    return sites
  }
}
