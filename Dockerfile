# docker build -t ragen . && docker run --rm -v "$PWD/runs:/suite/runs" ragen bench --agent random --agent oracle
# TORCH_INDEX_URL: an index of PyTorch's CPU builds; the default builds bring several gigabytes for NVIDIA GPUs.
FROM python:3.12-slim
ARG TORCH_INDEX_URL=
WORKDIR /suite
COPY . .
RUN PIP_EXTRA_INDEX_URL=$TORCH_INDEX_URL pip install --no-cache-dir -c constraints/dev.txt -e '.[api,models]'
ENTRYPOINT ["ragen"]
CMD ["--help"]
