// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTesting
import Testing

/// Everything that kills or starves. One after the other: the machine is shared.
@Suite(.serialized) struct Crashes {}

/// Everything that cuts the power. Without a second chain a processor would be idle at the end.
@Suite(.serialized) struct PowerCuts {}

/// The reason for skipping a test where tracing is forbidden.
var needsStrace: Comment { Comment(rawValue: Strace.missing ?? "strace is there") }

/// The part of a sweep to run: `LARDER_SWEEP=full` for all of it.
enum Sweep {
  static let isFull = ProcessInfo.processInfo.environment["LARDER_SWEEP"] == "full"

  /// All of them, or about `count`, evenly spread from a random beginning.
  static func thin<Site>(
    _ sites: [Site], to count: Int, using random: inout SeededRandom
  ) -> [Site] {
    if isFull || sites.count <= count { return sites }
    let stride = Double(sites.count) / Double(count)
    let start = Double.random(in: 0..<stride, using: &random)
    return (0..<count).map { sites[min(sites.count - 1, Int(start + Double($0) * stride))] }
  }

  /// A line for the log.
  static func report(_ line: String) {
    FileHandle.standardError.write(Data("crash: \(line)\n".utf8))
  }
}

/// A directory in memory where there is one: what is tested is what processes do, not the disk.
final class Scratch: Sendable {
  let path: String
  private let directory: TemporaryDirectory?

  init() throws {
    let number = UInt32.random(in: 0 ... .max)
    let candidate = "/dev/shm/larder-\(ProcessInfo.processInfo.processIdentifier)-\(number)"
    if (try? TestFiles.makeDirectory(candidate)) != nil {
      path = candidate
      directory = nil
    } else {
      directory = try TemporaryDirectory()
      path = directory!.path
    }
  }

  func appending(_ name: String) -> String { "\(path)/\(name)" }

  deinit { TestFiles.removeAll(path) }
}

extension TestFiles {
  /// Copies a tree of directories and files, links left out.
  static func copyTree(_ path: String, to target: String) throws {
    try makeDirectory(target)
    for name in names(in: path) {
      let (from, to) = ("\(path)/\(name)", "\(target)/\(name)")
      let type = try FileManager.default.attributesOfItem(atPath: from)[.type] as? FileAttributeType
      if type == .typeDirectory {
        try copyTree(from, to: to)
      } else {
        try write(contents(of: from), to: to)
      }
    }
  }
}

extension ChildProcess {
  /// Lets a peer go.
  func dismiss() throws {
    try send("exit")
    _ = try wait()
  }
}
