// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderDynamic
import LarderEngine
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct ImportRefusalTests {
  /// Imports that a store refuses although the file is well-formed.
  enum Refused: String, CaseIterable {
    case namespace = "invalidNamespace"
    case value = "valueTooLarge"

    func entry(_ key: String) -> ExportedEntry {
      ImportRefusalTests.entry(
        key, namespace: self == .namespace ? String(repeating: "n", count: 70_000) : "",
        count: self == .value ? 3 << 20 : 3)
    }
  }

  private static func entry(
    _ key: String, namespace: String = "", count: Int = 3
  ) -> ExportedEntry {
    ExportedEntry(
      namespace: namespace, key: EncodedKey(tag: KeyTag.text.rawValue, bytes: Array(key.utf8)),
      codec: CodecIdentifier.plainText.rawValue, created: 0, expires: ExportedEntry.never,
      payload: [UInt8](repeating: UInt8(ascii: "x"), count: count))
  }

  /// A tool on a store with a budget of 2 MB.
  private func withSmallStore(_ body: (Tool, _ directory: String) throws -> Void) throws {
    try withTemporaryDirectory { (path) throws in
      let tool = try Tool(store: path + "/store")
      try SharedStore(at: tool.store, StoreOptions(budget: .megabytes(2))).close()
      try body(tool, path)
    }
  }

  private func write(
    _ entries: [ExportedEntry], to file: String, asCBOR: Bool, tail: String = ""
  ) throws {
    var bytes: [UInt8] = []
    for entry in entries {
      if asCBOR {
        CBOREntryWriter.append(entry, to: &bytes)
      } else {
        JSONLinesEntryCoder.append(entry, to: &bytes)
      }
    }
    try Data(bytes + tail.utf8).write(to: URL(fileURLWithPath: file))
  }

  @Test(arguments: Refused.allCases, [false, true])
  func `An entry the store refuses is named by its place, and what precedes it is stored`(
    refused: Refused, asCBOR: Bool
  ) throws {
    try withSmallStore { (tool, path) throws in
      let file = path + "/file"
      var entries = ["1", "2", "3"].map { Self.entry($0) }
      entries += [refused.entry("4"), Self.entry("5"), refused.entry("6")]
      // A later mistake in the form is not the one reported.
      try write(entries, to: file, asCBOR: asCBOR, tail: "nonsense")
      let outcome = try tool.run("import", file, "--json")
      #expect(outcome.status == .exited(70))
      let error = try Tool.object(outcome.standardError)
      #expect(error["error"] as? String == refused.rawValue)
      #expect(error[asCBOR ? "item" : "line"] as? Int == 4)
      #expect(error["stored"] as? Int == 3)
      let place = "\(file), \(asCBOR ? "item" : "line") 4: "
      #expect(try tool.run("import", file).standardError.contains(place))
      #expect(try tool.output("get", "3") == "xxx\n")
      #expect(try tool.json("stat")["entries"] as? Int == 3)
    }
  }

  @Test func `Blank lines and earlier batches count in the number of a refused line`() throws {
    try withSmallStore { (tool, path) throws in
      let file = path + "/file"
      var lines = (0..<8005).map { "{\"key\":\"\($0)\",\"text\":\"x\"}\n" }
      lines.insert("\n", at: 100)
      lines.append(
        "{\"key\":\"late\",\"namespace\":\"\(String(repeating: "n", count: 401))\",\"text\":\"\"}")
      try Data(lines.joined().utf8).write(to: URL(fileURLWithPath: file))
      let outcome = try tool.run("import", file, "--json")
      let error = try Tool.object(outcome.standardError)
      #expect(error["line"] as? Int == 8007 && error["stored"] as? Int == 8005)
      #expect(try tool.output("get", "8004") == "x\n")
      // The namespace the caller gives is the caller's fault, not a line's.
      let named = try tool.run("import", file, "--namespace", String(repeating: "n", count: 401))
      #expect(named.status == .exited(64) && !named.standardError.contains("line 1"))
    }
  }

  @Test func `What has expired or is stored already is not refused`() throws {
    try withSmallStore { (tool, path) throws in
      let file = path + "/file"
      var expired = Refused.value.entry("expired")
      expired.expires = 1000
      var unnamed = Refused.namespace.entry("expired too")
      unnamed.expires = 1000
      try write(
        [expired, unnamed, Refused.value.entry("kept"), Self.entry("new")], to: file, asCBOR: false)
      _ = try tool.output("set", "kept", "mine")
      let said = try tool.output("import", file, "--keep-existing")
      #expect(said.hasPrefix("Imported 1 entry, left out 3"))
      #expect(try tool.output("get", "kept") == "mine\n")
    }
  }
}
#endif
