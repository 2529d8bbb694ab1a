// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTesting

/// A document of the demo.
struct Document: Codable, Sendable {
  let path: String
  let size: Int
  /// The time of the last change, in milliseconds since 1970.
  let modified: Int64

  /// The cache key. A changed document has another size or time, and so another key.
  var key: String { "\(path)#\(size)@\(modified)" }
  var isCompressed: Bool { path.hasSuffix(".gz") }

  /// Reads, decompresses and indexes the document.
  ///
  /// - Throws: The system's error if the file cannot be read, or ``Unreadable``.
  func index() throws -> DocumentIndex {
    guard isCompressed else {
      return DocumentIndex(of: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
    }
    let gzip = Process()
    let output = Pipe()
    gzip.executableURL = URL(fileURLWithPath: DocumentSelection.gzip ?? "/bin/gzip")
    gzip.arguments = ["-dc", path]
    gzip.standardOutput = output
    gzip.standardError = FileHandle.nullDevice
    try gzip.run()
    let data = try output.fileHandleForReading.readToEnd() ?? Data()
    gzip.waitUntilExit()
    guard gzip.terminationStatus == 0 else { throw Unreadable(path: path) }
    return DocumentIndex(of: Array(data))
  }

  /// The error of a file that gzip cannot decompress.
  struct Unreadable: Error { let path: String }
}

/// The documents that the demo indexes.
struct DocumentSelection {
  /// The directory, or a description of several.
  let place: String
  private(set) var documents: [Document] = []

  var compressed: Int { documents.count(where: \.isCompressed) }
  var bytes: Int { documents.reduce(0) { $0 + $1.size } }

  /// A larger document would occupy one worker for most of a run.
  private static let maximumSize = 1 << 20
  private static let excludedSuffixes: Set<String> = [
    "xz", "bz2", "zst", "lz4", "zip", "jar", "png", "jpg", "jpeg", "gif", "svg", "pdf", "so", "a",
    "o", "woff", "woff2", "ttf", "mo", "db", "tgz", "swiftmodule", "swiftdoc",
  ]

  /// The gzip of this machine, or nil.
  static let gzip = ["/usr/bin/gzip", "/bin/gzip"].first {
    FileManager.default.isExecutableFile(atPath: $0)
  }

  /// Selects documents, the compressed ones first, evenly from all that the directory contains.
  ///
  /// - Parameters:
  ///   - directory: The directory; without one, the documentation of this machine.
  ///   - maximumFiles: The limit. Files that cannot be read do not count.
  init(of directory: String?, maximumFiles: Int) {
    let system = ["/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/include"]
    let roots = directory.map { [URL(fileURLWithPath: $0).standardizedFileURL.path] } ?? system
    place = roots.joined(separator: ", ")
    let names = roots.flatMap(Self.names)
    let compressed = Self.gzip == nil ? [] : names.filter { $0.hasSuffix(".gz") }
    let plain = names.filter { !$0.hasSuffix(".gz") }
    for group in [compressed, plain] {
      // A repeatable sample: any limit takes documents of all packages.
      var order = DemoRandomGenerator(seed: 1)
      for path in group.shuffled(using: &order) where documents.count < maximumFiles {
        if let document = Self.document(at: path) { documents.append(document) }
      }
    }
  }

  /// Returns the paths of all files below a directory, sorted. Links are not followed.
  private static func names(below root: String) -> [String] {
    guard let walk = FileManager.default.enumerator(atPath: root) else { return [] }
    return walk.compactMap { $0 as? String }
      .filter { name in
        let suffix = name.split(separator: "/").last?.split(separator: ".").last ?? ""
        return !name.hasPrefix(".") && !name.contains("/.")
          && !excludedSuffixes.contains(suffix.lowercased())
      }
      .sorted().map { root == "/" ? "/\($0)" : "\(root)/\($0)" }
  }

  /// Returns the document of a readable file, or nil. Reads it, so that no run waits for the disk.
  private static func document(at path: String) -> Document? {
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      attributes[.type] as? FileAttributeType == .typeRegular,
      let size = attributes[.size] as? Int, (1...maximumSize).contains(size),
      (try? Data(contentsOf: URL(fileURLWithPath: path))) != nil
    else { return nil }
    let date = attributes[.modificationDate] as? Date ?? Date(timeIntervalSince1970: 0)
    return Document(path: path, size: size, modified: Int64(date.timeIntervalSince1970 * 1000))
  }
}

/// A repeatable random order (SplitMix64).
struct DemoRandomGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var word = state
    word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
    word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
    return word ^ (word >> 31)
  }
}
