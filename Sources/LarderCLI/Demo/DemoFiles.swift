// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// One file of the demo, as all its processes see it.
struct DemoFile: Codable, Sendable {
  let path: String
  let size: Int
  /// When it was changed last, in milliseconds since 1970.
  let modified: Int64

  /// What its result is cached under: another size or another time is another file.
  var key: String { "\(path)#\(size)@\(modified)" }

  /// Reads the file and counts its words; the work that is worth caching.
  ///
  /// - Throws: The system's error when the file has gone or may not be read.
  func index() throws -> FileIndex {
    FileIndex(of: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
  }
}

/// Which files the demo is about, and why these.
struct DemoFileSelection {
  let directory: String
  /// Half a sentence: what the directory is.
  let reason: String
  private(set) var files: [DemoFile] = []
  private(set) var bytes = 0
  private(set) var compressed = 0
  private(set) var tooLarge = 0
  private(set) var unreadable = 0
  /// Whether the walk ended at a limit.
  private(set) var isCut = false

  private let maximumFiles: Int
  private let maximumBytes: Int

  /// The largest file that is looked at: one file must not be a whole worker's time.
  static let maximumFileSize = 4 << 20

  private static let compressedSuffixes: Set<String> = [
    "gz", "xz", "bz2", "zst", "lz4", "zip", "jar", "png", "jpg", "jpeg", "gif", "pdf", "so", "a",
    "o", "woff", "woff2", "ttf",
  ]

  /// Walks a directory, in the order of names, until there is enough.
  init(of directory: String, because reason: String, maximumFiles: Int, maximumBytes: Int) {
    self.directory = directory
    self.reason = reason
    self.maximumFiles = maximumFiles
    self.maximumBytes = maximumBytes
    walk()
  }

  /// The documentation the system ships, else its headers, else this package.
  static func ofThisMachine(maximumFiles: Int, maximumBytes: Int) -> DemoFileSelection {
    let candidates = [
      ("/usr/share/doc", "the documentation this system ships"),
      ("/usr/include", "the C headers of this system"),
    ]
    for (path, reason) in candidates {
      let survey = DemoFileSelection(
        of: path, because: reason, maximumFiles: maximumFiles, maximumBytes: maximumBytes)
      if survey.files.count >= 100 { return survey }
    }
    return DemoFileSelection(
      of: packageDirectory, because: "this package: the system has no documentation and no headers",
      maximumFiles: maximumFiles, maximumBytes: maximumBytes)
  }

  /// The directory with Package.swift around the executable, else where the caller is.
  private static var packageDirectory: String {
    let manager = FileManager.default
    var place = URL(fileURLWithPath: Bundle.main.executablePath ?? CommandLine.arguments[0])
    while place.path.count > 1 {
      place.deleteLastPathComponent()
      if manager.fileExists(atPath: place.appendingPathComponent("Package.swift").path) {
        return place.path
      }
    }
    return manager.currentDirectoryPath
  }

  private mutating func walk() {
    let manager = FileManager.default
    // Links are not followed, so there are no circles; hidden directories are no documents.
    var waiting = [directory]
    while let place = waiting.popLast() {
      guard let names = try? manager.contentsOfDirectory(atPath: place) else {
        unreadable += 1
        continue
      }
      var below: [String] = []
      for name in names.sorted() where !name.hasPrefix(".") {
        let path = place == "/" ? "/\(name)" : "\(place)/\(name)"
        guard let attributes = try? manager.attributesOfItem(atPath: path) else { continue }
        switch attributes[.type] as? FileAttributeType {
        case .typeDirectory?: below.append(path)
        case .typeRegular?:
          add(path, attributes)
          if isCut { return }
        default: break
        }
      }
      waiting.append(contentsOf: below.reversed())
    }
  }

  private mutating func add(_ path: String, _ attributes: [FileAttributeKey: Any]) {
    let size = (attributes[.size] as? NSNumber)?.intValue ?? 0
    let suffix = path.split(separator: "/").last?.split(separator: ".").last ?? ""
    if Self.compressedSuffixes.contains(suffix.lowercased()) {
      compressed += 1
    } else if size > Self.maximumFileSize {
      tooLarge += 1
    } else if !FileManager.default.isReadableFile(atPath: path) {
      unreadable += 1
    } else if files.count >= maximumFiles || bytes + size > maximumBytes {
      isCut = true
    } else if size > 0 {
      let date = attributes[.modificationDate] as? Date ?? Date(timeIntervalSince1970: 0)
      let modified = Int64(date.timeIntervalSince1970 * 1000)
      files.append(DemoFile(path: path, size: size, modified: modified))
      bytes += size
    }
  }
}
