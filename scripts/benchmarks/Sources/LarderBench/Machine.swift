// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline

/// Where the figures were measured.
enum Machine {
  static var description: String {
    let environment = ProcessInfo.processInfo.environment
    let memory = ProcessInfo.processInfo.physicalMemory >> 20
    return """
      machine   \(processor), \(ProcessInfo.processInfo.activeProcessorCount) cores, \(memory) MiB
      system    \(ProcessInfo.processInfo.operatingSystemVersionString)
      swift     \(environment["LARDER_BENCH_SWIFT"] ?? "unknown"), release build
      liblmdb   \(String(cString: rival_version()))
      larder    \(environment["LARDER_BENCH_COMMIT"] ?? "unknown")
      """
  }

  /// The same as a line of JSON.
  static func json(isQuick: Bool) throws -> String {
    let line: [String: Any] = ["kind": "machine", "text": description, "quick": isQuick]
    let data = try JSONSerialization.data(
      withJSONObject: line, options: [.sortedKeys, .withoutEscapingSlashes])
    return String(decoding: data, as: UTF8.self)
  }

  private static var processor: String {
    let text = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
    for line in text.split(separator: "\n") where line.hasPrefix("model name") {
      return line.split(separator: ":").last.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }
    return "unknown processor"
  }

  /// Whether this program was built without optimisation.
  static var isDebugBuild: Bool {
    #if DEBUG
    return true
    #else
    var isDebug = false
    assert({ isDebug = true }() == ())
    return isDebug
    #endif
  }
}
