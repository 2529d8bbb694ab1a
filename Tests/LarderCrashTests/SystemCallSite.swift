// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

/// The system calls of a scenario, found by running it once.
struct SystemCallSite: Hashable, CustomStringConvertible {
  let name: String
  /// The number of this call among the calls of this name by its thread, from one.
  let number: Int
  /// The path concerned; empty for an anonymous `mmap`.
  let path: String
  /// Whether it is not the store's, but that of a library or of the test.
  let isForeign: Bool

  var description: String { "\(name) \(number)" }

  /// Calls that change files, locks, or data that other processes see.
  static let names = [
    "openat", "mkdir", "rename", "unlink", "unlinkat", "rmdir", "pwrite64", "pwritev", "writev",
    "write", "fsync", "fdatasync", "ftruncate", "fallocate", "flock", "fcntl", "mmap", "munmap",
    "close",
  ]

  /// All of them from the victim's first command on.
  static func all(in log: String) throws -> [SystemCallSite] {
    var counts: [Int: [String: Int]] = [:]
    var hasBegun = false
    var seen: Set<String> = []
    let calls = StraceLog.parse(try TestFiles.contents(of: log))
    let main = calls.first?.thread
    var sites: [SystemCallSite] = []
    for call in calls {
      if call.name == "read" {
        if call.number(0) == 0 { hasBegun = true }
        continue
      }
      counts[call.thread, default: [:]][call.name, default: 0] += 1
      guard hasBegun, names.contains(call.name) else { continue }
      let path = path(of: call)
      // libdispatch reads /proc when it creates a thread, and traps if it cannot.
      let isForeign =
        path.contains("/log")
        || (path.hasPrefix("/proc/") && !path.hasPrefix("/proc/self/fd/") && call.thread != main)
      let site = SystemCallSite(
        name: call.name, number: counts[call.thread]![call.name]!, path: path,
        isForeign: isForeign)
      if seen.insert(site.description).inserted {
        sites.append(site)
      } else if isForeign {
        // Each number injects one fault, in whatever thread.
        sites.removeAll { $0.description == site.description }
        sites.append(site)
      }
    }
    return sites
  }

  private static func path(of call: SystemCall) -> String {
    switch call.name {
    case "openat": call.string(1)
    case "mkdir", "rename", "unlink", "rmdir": call.string(0)
    case "mmap": call.path(behind: 4) ?? ""
    default: call.path(behind: 0) ?? ""
    }
  }
}
